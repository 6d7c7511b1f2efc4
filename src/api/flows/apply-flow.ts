/** Creating or updating a flow, for its own operations and for webhooks of other products. */
import { hash } from "node:crypto";
import { MAX_INLINE_DOCUMENT_BYTES } from "../../domain/documents.ts";
import { EMPTY_TEMPLATE_TEXT, buildLegacyTemplate } from "../../domain/flow-template/template.ts";
import type { FlowRow, Visibility } from "../../store/flows/flows.ts";
import type { StoredTemplateFile } from "../../workers/documents.ts";
import type { OperationContext } from "../context.ts";

type FlowInput = {
  name: string;
  description: string;
  /** null if absent. */
  visibility: Visibility | null;
  template: StoredTemplateFile;
  /** undefined if absent. */
  repoUrl: string | null | undefined;
};

/**
 * Creates or updates a flow.
 * @throws AppError not_found for the suffixed name of an archived flow, which refuses every write
 */
export function applyFlow(
  { store, organization, note }: OperationContext,
  { name, description, visibility, template, repoUrl }: FlowInput,
): { status: 200 | 201; body: "OK" } {
  const existing = store.flows.findHolder(organization.id, name) && store.flows.requireWritable(organization, name);
  const fields = {
    description,
    visibility: visibility ?? existing?.visibility ?? "private",
    templateId: store.templates.intern(template.text, existing?.template_id, template.parsedJson).id,
    repoUrl: repoUrl === undefined ? (existing?.repo_url ?? null) : repoUrl,
  };
  if (existing) store.flows.update(existing.id, fields);
  else store.flows.create(organization.id, { name, ...fields });
  const hasOther = existing !== null && existing.template_id !== fields.templateId;
  const old = hasOther ? store.templates.findText(existing.template_id) : null;
  note({
    flow: name,
    created: !existing,
    ...(hasOther && {
      template_before: old === null ? null : hash("sha256", old),
      template_after: hash("sha256", template.text),
    }),
  });
  return { status: existing ? 200 : 201, body: "OK" };
}

/**
 * The flow with that current or former name, created with the empty template if there is none: for reports of other
 * products, which arrive without a prepared flow.
 * @throws AppError not_found for the suffixed name of an archived flow
 */
export function findOrCreateFlow(context: OperationContext, name: string, description: string): FlowRow {
  const { store, organization } = context;
  if (!store.flows.find(organization.id, name)) {
    applyFlow(context, { name, description, visibility: null, template: EMPTY_TEMPLATE, repoUrl: undefined });
  }
  return store.flows.requireWritable(organization, name);
}

const EMPTY_TEMPLATE: StoredTemplateFile = { text: EMPTY_TEMPLATE_TEXT, parsedJson: null };

/** The template for a list of names; the empty template without one. */
export function templateOfNames(names: readonly string[] | null | undefined): StoredTemplateFile {
  if (names === null || names === undefined) return EMPTY_TEMPLATE;
  const { text, template } = buildLegacyTemplate(names);
  return { text, parsedJson: text.length > MAX_INLINE_DOCUMENT_BYTES ? JSON.stringify(template) : null };
}
