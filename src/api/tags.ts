/** Tags: key-value pairs on flows, environments, controls and repositories (semantics 8.3). */
import { Type } from "typebox";
import { TAG_KEY } from "../domain/names.ts";
import { invalid, notFound } from "../errors.ts";
import { json } from "../http/operation.ts";
import { CheckedByHandler, Closed, Maybe, Message, Ok, OneOf, named } from "../http/schema.ts";
import { validate } from "../http/validate.ts";
import { MAX_TAGS } from "../store/db/tags.ts";
import type { TagChange } from "../store/db/tags.ts";
import { operation } from "./context.ts";
import type { OperationContext } from "./context.ts";
import { MAX_LIST_ITEMS, Name, MAX_TEXT_CHARS, MAX_URL_CHARS } from "../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../domain/names.ts";
import { NoQuery } from "./paths.ts";

/** A tag in use, for choices in a filter. */
export const TagChoice = named("TagChoice", Closed({ key: Type.String(), value: Type.String() }));

/** The words in the path for each kind of resource (wire-contract 16). */
const KINDS = {
  flow: "flow",
  flows: "flow",
  env: "environment",
  environment: "environment",
  environments: "environment",
  control: "control",
  controls: "control",
  repo: "repo",
  repos: "repo",
} as const;
type Word = keyof typeof KINDS;
type Kind = (typeof KINDS)[Word];

/** Changes the tags of a resource of each kind. @throws AppError not_found with the message of its kind (messages 8) */
const patchTagsOf: Record<Kind, (context: OperationContext, id: string, change: TagChange) => void> = {
  flow({ store, organization }, id, change) {
    store.flows.patchTags(store.flows.requireWritable(organization, id).id, change);
  },
  environment({ store, organization }, id, change) {
    store.environments.patchTags(store.environments.requireWritable(organization, id).id, change);
  },
  control({ store, organization }, id, change) {
    const control = store.controls.find(organization.id, id);
    // The double quotes at both ends are part of the message.
    if (!control) throw notFound(`"Control '${id}' does not exist in organization '${organization.name}'"`);
    store.controls.patchTags(control.id, change);
  },
  repo({ store, organization }, id, change) {
    store.repos.patchTags(store.repos.require(organization, id).id, change);
  },
};

const TagKey = Name(TAG_KEY);
/** Tags hold words and links; lists of resources show all tags of each item, so values stay short. */
const TagValue = Type.String({ maxLength: MAX_URL_CHARS });

const TagPatchInput = named(
  "TagPatchInput",
  Closed({
    set_tags: Maybe(
      CheckedByHandler(
        { propertyNames: { pattern: TAG_KEY, maxLength: MAX_NAME_CHARS } },
        Type.Record(Type.String(), TagValue, {
          maxProperties: MAX_TAGS,
          description: "Tags to set; existing ones are overwritten",
        }),
      ),
    ),
    remove_tags: Maybe(
      Type.Array(Type.String({ maxLength: MAX_TEXT_CHARS }), {
        maxItems: MAX_LIST_ITEMS,
        description: "Keys to remove; unknown keys are ignored",
      }),
    ),
  }),
);

export const patchTags = operation({
  id: "patch_tags",
  method: "PATCH",
  path: "/tags/{org}/{resource_type}/{resource_id}",
  tag: "Tags",
  summary: "Set and remove tags",
  description:
    `Changes the tags of a flow, environment, control or repository, which has at most ${MAX_TAGS}. Tags are removed ` +
    "first: a key that is both removed and set is set.",
  permission: "tag:write",
  audit: "tags.changed",
  params: Closed({
    org: Type.String({ description: "Name of the organization" }),
    resource_type: OneOf(Object.keys(KINDS) as Word[], { description: "Kind of the resource" }),
    resource_id: Type.String({
      description: "Name of the flow or environment, identifier of the control, internal id of the repo",
    }),
  }),
  query: NoQuery,
  body: json(TagPatchInput),
  responses: {
    200: { description: "Changed", schema: Ok },
    404: { description: "No such resource", schema: Message },
  },
  example: {
    params: { org: "acme", resource_type: "flow", resource_id: "payments" },
    body: { set_tags: { team: "payments", runbook: "https://example.com/runbook" }, remove_tags: ["legacy"] },
  },
  handle(context, { params, body }) {
    const set = body.set_tags ?? {};
    requireTagKeys(set, "set_tags");
    const remove = body.remove_tags ?? [];
    patchTagsOf[KINDS[params.resource_type]](context, params.resource_id, { set, remove });
    context.note({ set, removed: remove });
    return { status: 200, body: "OK" };
  },
});

/**
 * Checks the keys of tags to set: an error of the schema would name the object, not the key.
 * @param place the dotted path of the object
 * @throws AppError 400 with an error for each key
 */
export function requireTagKeys(set: Readonly<Record<string, string>>, place: string): void {
  const problems = Object.keys(set).flatMap((key) =>
    Object.entries(validate(TagKey, key, { mode: "plain", root: `${place}.${key}` }) ?? {}),
  );
  const fields = Object.fromEntries(problems);
  if (Object.keys(fields).length > 0) throw invalid(fields);
}
