/** Publishing a Rego policy: what is sent becomes a version, unless it is the latest one (newer-clients 5.2, 5.3). */
import type { Static } from "typebox";
import type { RegoFiles } from "../../domain/rego/bundle.ts";
import { invalid } from "../../errors.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { validate } from "../../http/validate.ts";
import { bundleSha256, listBundleFiles, packBundle, unpackBundle } from "../../rego/bundle-archive.ts";
import { engineName } from "../../rego/engine-name.ts";
import type { StagedDocuments } from "../../rego/documents.ts";
import type { OperationContext } from "../context.ts";
import { checkBundle, requireValidBundle } from "./rego-bundles.ts";
import { presentRegoPolicy, presentVersion } from "./rego-policy-shapes.ts";
import type { Publication, RegoPolicyPostInput, RegoPolicyPutInput } from "./rego-policy-shapes.ts";
import { normalizePublication } from "./rego-spellings.ts";

/** A bundle that the engine accepted, in storage. */
type Prepared = {
  files: RegoFiles;
  fields: Publication;
  bundle: StagedDocuments;
  report: Awaited<ReturnType<typeof checkBundle>>;
};

/** Reads and checks what is to be published; nothing is left behind when it throws. */
export async function preparePublication(
  context: OperationContext,
  fields: Publication,
  file: UploadedFile | null,
): Promise<Prepared> {
  if (fields.files !== undefined && file)
    throw invalid({ files: "The files are given twice: in the JSON and as an archive" });
  if (fields.files === undefined && !file) throw invalid({ files: "Field required" });
  const files = fields.files ?? (await unpackBundle((file as UploadedFile).bytes));
  requireValidBundle(files, "files");
  const report = await checkBundle(context, files);
  return { files, fields, report, bundle: await context.rego.documents.stage([await packBundle(files)]) };
}

/** Publishes in the write. Concurrent publications are serialized here, so none of them fails with 409. */
export function publish(context: OperationContext, identifier: string, { files, fields, bundle, report }: Prepared) {
  const { store, organization, principal, note } = context;
  const [document] = bundle.rows;
  if (!document) throw new Error("a bundle was not packed");
  store.regoDocuments.insert(document);
  const content = {
    bundle_digest: document.digest,
    sha256: bundleSha256(files),
    files_json: JSON.stringify(listBundleFiles(files)),
    package: report.package,
    outputs_json: JSON.stringify(report.outputs),
    params_json: report.params === null ? null : JSON.stringify(report.params),
    warnings_json: JSON.stringify(report.warnings),
    comment: fields.comment ?? "",
    engine: engineName(),
  };
  const existing = store.regoPolicies.find(organization.id, identifier);
  let changed = true;
  let isNew = true;
  if (existing) {
    isNew = store.regoPolicies.publish(existing, content, principal.displayName);
    const texts = { name: fields.name ?? existing.name, description: fields.description ?? existing.description };
    changed = store.regoPolicies.rename(existing, texts) || isNew;
  } else {
    const texts = { identifier, name: fields.name ?? identifier, description: fields.description ?? "" };
    store.regoPolicies.create(organization.id, texts, { content, user: principal.displayName });
  }
  if (!isNew) store.regoDocuments.removeUnused(document.digest);
  const policy = store.regoPolicies.require(organization, identifier);
  note({ rego_policy: identifier, version: policy.version, sha256: content.sha256 });
  const version = presentVersion(store.regoPolicies.getVersion(policy));
  const body = { ...presentRegoPolicy(policy), version, changed, warnings: report.warnings };
  return { status: isNew ? (201 as const) : (200 as const), body, ...(changed ? {} : { unaudited: true as const }) };
}

/** The fields of a body in any spelling. @throws AppError 400 */
export function readPublication<T extends typeof RegoPolicyPutInput | typeof RegoPolicyPostInput>(
  context: OperationContext,
  schema: T,
  body: Record<string, unknown>,
): Static<T> {
  const fields = normalizePublication(body);
  const problems = validate(schema, fields, { mode: "plain", root: "body" });
  if (problems) {
    context.noteUnknownKeys(problems);
    throw invalid(problems);
  }
  return fields as Static<T>;
}
