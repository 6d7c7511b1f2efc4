/** Audit packages of trails and artifacts, and the readable report of a trail (semantics 8.9). */
import { Readable } from "node:stream";
import { createHash } from "node:crypto";
import { Type } from "typebox";
import { auditPackageName, FINGERPRINT_PREFIX } from "../../domain/names.ts";
import { type AppError, unavailable } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Message } from "../../http/schema.ts";
import type { PackageSubject } from "../../store/flows/audit-packages.ts";
import { PackagesBusyError } from "../../audit-packages/package-maker.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { requireTrail } from "./trails.ts";
import { FlowPath, NoQuery } from "../paths.ts";

const TrailPath = Closed({ ...FlowPath.properties, trail_name: Type.String({ description: "Name of the trail" }) });
type TrailParams = { flow_name: string; trail_name: string };

/** Seconds after which a client that found the server busy may come again. */
const COME_AGAIN = 10;

/** The trail as the subject of a package, and the name of that package. @throws AppError 404 (messages 12) */
function findTrail(
  context: OperationContext,
  { flow_name, trail_name }: TrailParams,
): { subject: PackageSubject; name: string } {
  const flow = context.store.flows.require(context.organization, flow_name);
  const trail = requireTrail(context, { id: flow.id, name: flow_name }, trail_name);
  return {
    subject: { kind: "trail", trailId: trail.id },
    name: auditPackageName({ flow: flow.name, trail: trail.name }),
  };
}

/** Bytes of that type, as the OpenAPI document tells them. */
const bytesOf = (contentType: string) => ({ contentType, schema: Type.String({ format: "binary" }) });

const requestOf = ({ organization, urls }: OperationContext, subject: PackageSubject) => ({
  organizationId: organization.id,
  subject,
  baseUrl: urls.root,
});

/** Opens a package; what is wrong before its first byte is the answer. */
async function open(context: OperationContext, subject: PackageSubject, gone: AbortSignal): Promise<Readable> {
  try {
    return await context.packages.open(requestOf(context, subject), gone);
  } catch (error) {
    throw refusalOf(error) ?? error;
  }
}

/** 503 where coming again may help; null for what is no matter of load. */
function refusalOf(error: unknown): AppError | null {
  if (error instanceof PackagesBusyError)
    return unavailable("The server is making as many audit packages as it can. Please try again", COME_AGAIN, error);
  return (error as NodeJS.ErrnoException).code === "ENOSPC"
    ? unavailable("The server has no room to make the audit package. Please try again", COME_AGAIN, error)
    : null;
}

export const getAuditPackage = operation({
  id: "get_audit_package",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/{fingerprint}/audit_package",
  tag: "Artifacts",
  summary: "Download everything recorded about an artifact",
  description:
    "A tar archive, compressed on the way (`Content-Encoding: gzip`): every record of the artifact in the flow, its attestations with their evidence, where it ran and under which policies, and a readable report, all in one directory. `SHA256SUMS` in it is checked with `sha256sum --check`. The same records give the same bytes. A download that breaks off is not complete.",
  permission: "artifact:read",
  audit: null,
  params: Closed({
    ...FlowPath.properties,
    fingerprint: Matching(FINGERPRINT_PREFIX, { description: "The fingerprint or at least its first 5 characters" }),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The archive",
      ...bytesOf("application/octet-stream"),
      isStream: true,
      headers: { "Content-Encoding": Type.String({ description: "gzip" }) },
    },
    404: { description: "No such flow or artifact, or several with that beginning", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", fingerprint: "7b1f5c9a1d2b" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const fingerprint = store.artifacts.resolve(flow.id, params.fingerprint);
    if (fingerprint === null || !store.artifacts.latest(flow.id, fingerprint, null))
      throw store.artifacts.missing(params.fingerprint, params.flow_name, organization.name);
    return {
      status: 200,
      stream: {
        contentType: "application/octet-stream",
        encoding: "gzip",
        // Who follows the coding has a tar file at the end.
        filename: `${auditPackageName({ flow: flow.name, fingerprint })}.tar`,
        open: (gone) => open(context, { kind: "artifact", flowId: flow.id, fingerprint }, gone),
      },
    };
  },
});

export const downloadTrailAuditPackage = operation({
  id: "download_trail_audit_package",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}/audit_package",
  tag: "Trails",
  summary: "Download everything recorded on a trail",
  description:
    "A gzipped tar archive: the trail with template and history, its artifacts, every attestation with its evidence, where the artifacts ran and under which policies, and a readable report, all in one directory. `SHA256SUMS` in it is checked with `sha256sum --check`. The same records give the same bytes. A download that breaks off is not complete.",
  permission: "trail:read",
  audit: null,
  params: TrailPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The archive", ...bytesOf("application/gzip"), isStream: true },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" } },
  handle(context, { params }) {
    const { subject, name } = findTrail(context, params);
    return {
      status: 200,
      stream: {
        contentType: "application/gzip",
        filename: `${name}.tar.gz`,
        open: (gone) => open(context, subject, gone),
      },
    };
  },
});

export const downloadTrailAuditPdf = operation({
  id: "download_trail_audit_pdf",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}/audit_pdf",
  tag: "Trails",
  summary: "Download the report of a trail",
  description:
    "The report that the audit package has as `trail-page.pdf`. Byte ranges are served; the ETag is the SHA-256 of the file.",
  permission: "trail:read",
  audit: null,
  params: TrailPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The report", ...bytesOf("application/pdf"), isDownload: true },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" } },
  async prepare(context, { params }) {
    const { subject } = findTrail(context, params);
    try {
      return await context.packages.report(requestOf(context, subject));
    } catch (error) {
      throw refusalOf(error) ?? unavailable("The report cannot be made now. Please try again", COME_AGAIN, error);
    }
  },
  handle: (_, { params }, pdf) => ({
    status: 200,
    download: {
      size: pdf.length,
      contentType: "application/pdf",
      filename: `${params.flow_name}-${params.trail_name}.pdf`,
      etag: createHash("sha256").update(pdf).digest("hex"),
      open: async (range) => Readable.from([range ? pdf.subarray(range.start, range.end + 1) : pdf]),
    },
  }),
});
