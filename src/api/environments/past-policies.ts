/** The policies of an organization as of a moment: the versions of then, and where they were in force. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { presentPagination } from "../../http/pagination.ts";
import { Closed, Nullable, named } from "../../http/schema.ts";
import type { PastPolicyRow } from "../../store/environments/history/past.ts";
import { largeRead } from "../context.ts";
import { AtMoment, prepareMoment, resolveMoment } from "../moment.ts";
import { PageOf, definePaging } from "../paging.ts";
import { OrgPath } from "../paths.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { findPolicies, hasManyEnvironments } from "./past.ts";

/** Environments of a policy that are named. */
const MAX_NAMED = 4;
const PAGES = definePaging({ perPage: 25, maxPerPage: 100 });

const PastPolicyVersion = named(
  "PastPolicyVersion",
  Closed({
    name: Type.String({ description: "Its present name" }),
    description: Type.String({ description: "The present one" }),
    version: Nullable(Type.Integer({ description: "The latest one at that moment; null before the first" })),
    stored_at: Nullable(Type.Number({ description: "Epoch seconds of that version" })),
    stored_by: Nullable(Type.String()),
    environments: Type.Array(
      Closed({
        environment_name: Type.String(),
        version: Nullable(
          Type.Integer({ description: "The one in force there, that of its latest evaluation; null: not readable" }),
        ),
      }),
      { description: `Those in whose snapshots the policy was in force; at most ${MAX_NAMED}` },
    ),
    environment_count: Type.Integer(),
  }),
);

type Place = Static<typeof PastPolicyVersion>["environments"][number];

export const listPastPolicies = largeRead({
  id: "list_past_policies",
  method: "GET",
  path: "/past/{org}/policies",
  tag: "Past",
  summary: "List the policies of an organization as of a moment",
  description:
    "The policies that existed then, by name, each with its latest version of then and where it was in force.",
  permission: "policy:read",
  audit: null,
  origin: "assay",
  params: OrgPath,
  query: Closed({
    ...AtMoment,
    ...PAGES.query,
    name: Type.Optional(Type.String({ maxLength: 256, description: "Part of the name, in any case" })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: PageOf("PastPolicyList", PastPolicyVersion) } },
  example: { params: { org: "acme" }, query: { at: "production#1" } },
  prepare: prepareMoment,
  isLarge: hasManyEnvironments,
  handle(context, { query }, moment) {
    const { store, organization } = context;
    const at = resolveMoment(context, moment);
    const { page, perPage, offset, limit } = PAGES.window(query);
    const search = (query.name ?? "").toLowerCase();
    const rows = store.past.listPolicies(organization.id, at).filter(({ name }) => name.toLowerCase().includes(search));
    const environments = store.past.listExisting(organization.id, at);
    const policies = findPolicies(context, environments);
    // Whether a policy was in force there is not known.
    const isDamaged = [...policies.values()].some((all) => all.some(({ version }) => version === null));
    const usersOf = ({ name }: PastPolicyRow): Place[] =>
      environments
        .flatMap(({ id, name: environment }) => {
          const own = policies.get(id)?.find((one) => one.name === name);
          return own ? [{ environment_name: environment, version: own.version }] : [];
        })
        .sort((one, other) => (one.environment_name < other.environment_name ? -1 : 1))
        .concat(isDamaged ? [{ environment_name: UNREADABLE, version: null }] : []);
    return {
      status: 200,
      body: {
        data: rows.slice(offset, offset + limit).map((row) => {
          const users = usersOf(row);
          return {
            name: row.name,
            description: row.description,
            version: row.version,
            stored_at: row.timestamp,
            stored_by: row.created_by,
            environments: users.slice(0, MAX_NAMED),
            environment_count: users.length,
          };
        }),
        pagination: presentPagination(rows.length, page, perPage),
      },
    };
  },
});
