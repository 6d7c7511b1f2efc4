/** Audit packages of trails and artifacts, and the readable report of a trail (semantics 8.9). */
import { Readable } from "node:stream";
import { createHash } from "node:crypto";
import { Type } from "typebox";
import { formatAuditPackageName, FINGERPRINT_PREFIX } from "../../domain/names.ts";
import { type AppError, tooManyRequests, unavailable } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Message } from "../../http/schema.ts";
import type { PackageSubject } from "../../store/environments/audit-packages.ts";
import { PackagesBusyError } from "../../audit-packages/admission.ts";
import { PackageMemoryError, PackageWorkerError } from "../../audit-packages/package-maker.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { requireFingerprint } from "./artifacts.ts";
import { requireTrailAt } from "./trails.ts";
import { FlowPath, NoQuery } from "../paths.ts";

const TrailPath = Closed({ ...FlowPath.properties, trail_name: Type.String({ description: "Name of the trail" }) });
type TrailParams = { flow_name: string; trail_name: string };

/** Seconds after which clients should retry when the server is busy. */
const RETRY_AFTER_S = 10;

/** The trail as the subject of a package, and the name of that package. @throws AppError 404 (messages 12) */
function findTrail(context: ReadingContext, params: TrailParams): { subject: PackageSubject; name: string } {
  const { flow, trail } = requireTrailAt(context, params);
  return {
    subject: { kind: "trail", trailId: trail.id },
    name: formatAuditPackageName({ flow: flow.name, trail: trail.name }),
  };
}

/** A binary response in the OpenAPI document. */
const binary = (contentType: string) => ({ contentType, schema: Type.String({ format: "binary" }) });

const requestOf = ({ organization, urls, principal }: ReadingContext, subject: PackageSubject) => ({
  organizationId: organization.id,
  caller: principal.publicId,
  subject,
  baseUrl: urls.root,
});

/** A whole package in the OpenAPI document. */
export const PACKAGE_RESPONSE = { description: "The archive", ...binary("application/gzip"), isStream: true } as const;

/** Opens a package. An error before its first byte becomes the response. @throws AppError 503 */
export async function openPackage(
  context: ReadingContext,
  subject: PackageSubject,
  gone: AbortSignal,
): Promise<Readable> {
  try {
    return await context.packages.open(requestOf(context, subject), gone);
  } catch (error) {
    throw toUnavailable(error) ?? error;
  }
}

/** Whether the thread that makes packages reached its limit of memory. */
const isOutOfMemory = (error: unknown): boolean =>
  error instanceof PackageWorkerError &&
  (error.cause as NodeJS.ErrnoException | null)?.code === "ERR_WORKER_OUT_OF_MEMORY";

/** The 429 or 503 for an error that a retry may resolve; null for all others. */
function toUnavailable(error: unknown): AppError | null {
  if (error instanceof PackagesBusyError)
    return unavailable("Too many audit packages are being created. Please try again", RETRY_AFTER_S, error);
  if (error instanceof PackageMemoryError)
    return tooManyRequests("The server is busy with too many large requests to make an audit package", RETRY_AFTER_S);
  if (isOutOfMemory(error))
    return unavailable(
      "The server had too little memory for an audit package, this one or another. Please try again; the package of " +
        "an artifact takes less than that of its trail",
      RETRY_AFTER_S,
      error,
    );
  return (error as NodeJS.ErrnoException).code === "ENOSPC"
    ? unavailable("The server has no disk space for the audit package. Please try again", RETRY_AFTER_S, error)
    : null;
}

export const getAuditPackage = operation({
  id: "get_audit_package",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/{fingerprint}/audit_package",
  tag: "Artifacts",
  summary: "Download the audit package of an artifact",
  description:
    "A tar archive, compressed in transit (`Content-Encoding: gzip`), with one directory: every record of the " +
    "artifact in the flow, its attestations with their evidence, where it ran and under which policies, and a " +
    "readable report. Verify it with `sha256sum --check SHA256SUMS`. The same records give the same bytes. A " +
    "download that fails midway is truncated.",
  permission: "artifact:read",
  audit: null,
  params: Closed({
    ...FlowPath.properties,
    fingerprint: Matching(FINGERPRINT_PREFIX, { description: "The fingerprint, or at least its first 5 characters" }),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The archive",
      ...binary("application/octet-stream"),
      isStream: true,
      headers: { "Content-Encoding": Type.String({ description: "gzip" }) },
    },
    404: { description: "No such flow or artifact, or an ambiguous fingerprint", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", fingerprint: "7b1f5c9a1d2b" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const fingerprint = requireFingerprint(context, { id: flow.id, name: params.flow_name }, params.fingerprint);
    return {
      status: 200,
      stream: {
        contentType: "application/octet-stream",
        encoding: "gzip",
        // Clients that decode the content end up with a tar file.
        filename: `${formatAuditPackageName({ flow: flow.name, fingerprint })}.tar`,
        open: (gone) => openPackage(context, { kind: "artifact", flowId: flow.id, fingerprint }, gone),
      },
    };
  },
});

export const downloadTrailAuditPackage = operation({
  id: "download_trail_audit_package",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}/audit_package",
  tag: "Trails",
  summary: "Download the audit package of a trail",
  description:
    "A gzipped tar archive with one directory: the trail with its template and history, its artifacts, every " +
    "attestation with its evidence, where the artifacts ran and under which policies, and a readable report. Verify " +
    "it with `sha256sum --check SHA256SUMS`. The same records give the same bytes. A " +
    "download that fails midway is truncated.",
  permission: "trail:read",
  audit: null,
  params: TrailPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: PACKAGE_RESPONSE,
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
        open: (gone) => openPackage(context, subject, gone),
      },
    };
  },
});

export const downloadTrailAuditPdf = operation({
  id: "download_trail_audit_pdf",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}/audit_pdf",
  tag: "Trails",
  summary: "Download the audit report of a trail",
  description:
    "The report that the audit package contains as `trail-page.pdf`. Supports byte ranges; the ETag is the SHA-256 " +
    "of the file.",
  permission: "trail:read",
  audit: null,
  params: TrailPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The report", ...binary("application/pdf"), isDownload: true },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" } },
  async prepare(context, { params }) {
    const { subject } = findTrail(context, params);
    try {
      return await context.packages.report(requestOf(context, subject));
    } catch (error) {
      throw (
        toUnavailable(error) ?? unavailable("The report cannot be created now. Please try again", RETRY_AFTER_S, error)
      );
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
