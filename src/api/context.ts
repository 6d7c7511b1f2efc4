/** What every operation of Assay works with, and how operations are made. */
import { operationFor } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import type { LargeJsonReader } from "../http/body/read-json.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import type { Role } from "../domain/access.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { PhysicalType } from "../store/environments/environments.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { Store } from "../store/index.ts";
import type { CustomTypes } from "../workers/sandbox/attestation-types.ts";
import type { DocumentReader } from "../workers/documents.ts";
import type { Urls } from "../contract/urls.ts";
import type { EvidenceReader } from "../contract/evidence-reader.ts";
import type { PackageMaker } from "../audit-packages/package-maker.ts";
import type { Actor } from "../store/actor.ts";
import type { Principal, Membership, RequestContext } from "../http/server-context.ts";

export type OrgMembership = Membership & { organization: OrganizationRow };

export type OperationContext = {
  readonly store: Store;
  readonly urls: Urls;
  readonly evidence: EvidenceReader;
  /** Compiles and runs what users wrote for their attestation types. */
  readonly customTypes: CustomTypes;
  /** For JSON inside of a body: in a text, or in a file. */
  readonly largeJson: LargeJsonReader;
  /** Reads uploaded templates and policies. */
  readonly documents: DocumentReader;
  readonly packages: PackageMaker;
  /** Epoch seconds. */
  now(): number;
  /** The OpenAPI document of this server. */
  openApi(): unknown;
  /** Version of this program and of its database schema; `commit` is null where the build could not tell. */
  version(): { version: string; commit: string | null; schema: number };
  /** The organization of the path; only on operations below one. */
  readonly organization: OrganizationRow;
  /** Who calls; only on operations that need a key. */
  readonly principal: Principal;
  /** What the caller is in the organization of the path; null for somebody who only reads a public one. */
  readonly role: Role | null;
  /** A new API key. */
  newSecret(): string;
  /** What is wrong with a URL as a target of messages, null when nothing is; names are not resolved. */
  targetProblem(url: string): string | null;
  /** What was noted so far; use `note`. */
  readonly notes: Record<string, unknown>;
  /** Adds facts to the audit entry of this write. */
  note(detail: Record<string, unknown>): void;
  /** The audit entry of this write, with what was noted so far. */
  auditEntry(): AuditEntry;
  readonly recorder: LargeReportRecorder;
  readonly jobs: Jobs;
  /** What the answer waits for after the commit. */
  readonly pending: (() => Promise<void>)[];
};
/** Takes work that would hold up everybody else to a thread of its own; see jobs/recorder.ts. */
export type LargeReportRecorder = {
  /** Whether a look at an environment with so many artifacts to evaluate or write is work for it. */
  accepts(weight: number): boolean;
  /** Whether `text` can be used. */
  readonly reads: boolean;
  /**
   * Records a report. @returns the index of the snapshot, null when none was made; not planned, and nothing recorded,
   * when the environment was archived meanwhile.
   */
  report(task: {
    environmentId: number;
    artifacts: readonly ReportedArtifact[];
    actor: Actor;
    entry: AuditEntry;
  }): Promise<Recorded>;
  /**
   * Reads the text of a report, which is given away, and records it. `touch` runs inside a write and says whether the
   * digest was all it takes.
   */
  recordRaw(task: {
    environmentId: number;
    report: PhysicalType;
    bytes: Buffer;
    touch: (digest: string) => boolean;
    actor: Actor;
    entry: (artifacts: number) => AuditEntry;
  }): Promise<Recorded>;
};

export type Recorded = { planned: boolean; index: number | null };

export type Jobs = {
  /** Resolves when the job is done, and after `patience` seconds in any case. */
  settled(id: number, patience: number): Promise<void>;
};

export type AssayOperation = AnyOperation<OperationContext>;

/** Whether an export of a resource is an operation. */
export const isOperation = (value: unknown): value is AssayOperation =>
  typeof value === "object" && value !== null && "handle" in value && "permission" in value;

/** Declares an operation. */
export const operation = operationFor<OperationContext>();

/**
 * What contexts are made of; `urls` and `openApi` are those of a public URL, because one server may be reached under
 * several.
 */
export type OperationContextParts = Pick<
  OperationContext,
  | "store"
  | "largeJson"
  | "evidence"
  | "packages"
  | "customTypes"
  | "documents"
  | "now"
  | "newSecret"
  | "targetProblem"
  | "recorder"
  | "jobs"
  | "version"
> & {
  urls(baseUrl: string): Urls;
  openApi(baseUrl: string): unknown;
};

/**
 * Creates the contexts of a running server. A context is bound to one state of its request: after a reauthorization
 * `updateContext` gives another one, which keeps what was noted and what is pending.
 */
export function contextFactory({ urls, openApi, ...parts }: OperationContextParts) {
  const bind = (
    request: RequestContext<OrgMembership>,
    { notes, pending }: Pick<OperationContext, "notes" | "pending">,
  ): OperationContext => ({
    ...parts,
    get urls() {
      return urls(request.baseUrl);
    },
    openApi: () => openApi(request.baseUrl),
    notes,
    pending,
    auditEntry() {
      const { publicId, name, kind, keyPublicId } = requirePart(request.principal, "principal");
      return {
        organizationId: request.membership?.organizationId ?? null,
        actor: { kind, publicId, name, keyPublicId },
        operation: request.operationId,
        event: requirePart(request.event, "audit event"),
        target: request.path,
        requestId: request.requestId,
        detail: Object.keys(notes).length > 0 ? { ...notes } : null,
      };
    },
    note: (detail) => void Object.assign(notes, detail),
    get organization() {
      return requirePart(request.membership, "organization").organization;
    },
    get role() {
      return requirePart(request.membership, "organization").role;
    },
    get principal() {
      return requirePart(request.principal, "principal");
    },
  });
  return {
    createContext: (request: RequestContext<OrgMembership>) => bind(request, { notes: {}, pending: [] }),
    updateContext: (context: OperationContext, request: RequestContext<OrgMembership>) => bind(request, context),
  };
}

function requirePart<T>(value: T | null, what: string): T {
  if (value === null) throw new Error(`this operation has no ${what}: its permission does not ask for one`);
  return value;
}
