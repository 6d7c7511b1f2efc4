/** The context that every operation of Assay works with, and the declaration of operations. */
import type { TSchema } from "typebox";
import { forbidden } from "../errors.ts";
import { excerptName, noteIgnoredKeys, refuseSlips } from "../http/body/unknown-keys.ts";
import { unboundedAnswer } from "../http/answers/large-answers.ts";
import type { AnswerBounds } from "../http/answers/large-answers.ts";
import { largeReadFor, operationFor } from "../http/declare-operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import type { LargeJsonReader } from "../http/body/read-json.ts";
import type { Cause } from "../domain/snapshot/diff.ts";
import type { Role } from "../domain/access.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { EnvironmentRow, PhysicalType } from "../store/environments/environments.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { Store } from "../store/index.ts";
import type { StoreReader } from "../store/reader.ts";
import type { FileProblem } from "../domain/policy/diagnostics.ts";
import type { DraftPreview, PreviewQuestion } from "../store/environments/change-previews.ts";
import type { ChangePreview } from "../store/environments/preview-results.ts";
import type { StartPreview, StartQuestion } from "../store/environments/start-previews.ts";
import type { TemplatePreview, TemplateQuestion } from "../store/flows/template-previews.ts";
import type { AttestationTypes } from "../workers/sandbox/attestation-types.ts";
import type { InputTask, PackedInput } from "../contract/evaluation-input.ts";
import type { RegoDocuments } from "../rego/documents.ts";
import type { EvaluationQueue } from "../rego/evaluator.ts";
import type { RegoEngine } from "../rego/types.ts";
import type { DocumentReader, StoredPolicyFile } from "../workers/documents.ts";
import type { Urls } from "../contract/urls.ts";
import type { EvidenceReader } from "../contract/evidence-reader.ts";
import type { PasswordHasher } from "../auth/password-hashing.ts";
import type { PackageMaker } from "../audit-packages/package-maker.ts";
import type { Actor } from "../store/actor.ts";
import { MAX_UNKNOWN_KEYS } from "../http/schema.ts";
import { UNKNOWN_KEY } from "../http/validate.ts";
import type { FieldErrors } from "../errors.ts";
import type { Principal, Membership, RequestContext } from "../http/server-context.ts";

export type OrgMembership = Membership & { organization: OrganizationRow };

export type OperationContext = {
  readonly store: Store;
  readonly urls: Urls;
  readonly evidence: EvidenceReader;
  /** Compiles and runs the rules and schemas of custom attestation types. */
  readonly customTypes: AttestationTypes;
  /** Parses JSON inside a body: in a text, or in a file. */
  readonly largeJson: LargeJsonReader;
  /** Reads uploaded templates and policies. */
  readonly documents: DocumentReader;
  /** Previews of changes, and of policy and template texts that are not stored; see jobs/policy-previews.ts. */
  readonly policyPreviews: PolicyPreviewer;
  /** Checks and runs Rego policies; see server/open-rego.ts. */
  readonly rego: RegoService;
  readonly packages: PackageMaker;
  readonly passwords: Pick<PasswordHasher, "hashOfMember">;
  /** Names of the organizations in which groups of the login provider give roles. */
  readonly mappedOrganizations: ReadonlySet<string>;
  /** Epoch seconds. */
  now(): number;
  /** The OpenAPI document of this server. */
  openApi(): unknown;
  /** Version of this program and of its database schema; `commit` is null if unknown at build time. */
  version(): { version: string; commit: string | null; schema: number };
  /** The organization of the path; throws on operations outside an organization. */
  readonly organization: OrganizationRow;
  /** The user, service account or operator who asks; throws on operations without authentication. */
  readonly principal: Principal;
  /** As `principal`, for what is about the caller's own account. @throws AppError 403 for the operator, who has none */
  readonly account: Principal & { kind: "user" | "service_account" };
  /** The principal's role in the organization of the path; null for a reader of a public one without membership. */
  readonly role: Role | null;
  /**
   * Counts top-level keys of an open body that the operation read itself and ignored.
   * @throws AppError 400 for one that looks like a slip
   */
  ignoreKeys(schema: TSchema, keys: readonly string[]): void;
  /**
   * Counts the keys of a closed body that a problem says are not known: what a newer client sends, and this server
   * refuses, shows what is missing. @param problems texts by the paths of their fields
   */
  noteUnknownKeys(problems: FieldErrors): void;
  /** Creates the text of an API key. */
  newSecret(): string;
  /** The problem of a URL as a notification target, null for a valid one; does not resolve host names. */
  targetProblem(url: string): string | null;
  /** The detail of this write's audit entry so far; add to it with `note`. */
  readonly notes: Record<string, unknown>;
  /** Adds detail to the audit entry of this write. */
  note(detail: Record<string, unknown>): void;
  /** The audit entry of this write, with the detail added so far. */
  auditEntry(): AuditEntry;
  readonly recorder: Recorder;
  readonly jobs: Jobs;
  /** See PresenterContext. */
  readonly answerBounds: AnswerBounds;
  /** Tasks that run after the commit and before the response. */
  readonly afterCommitTasks: (() => Promise<void>)[];
};

/** The context of a read: nothing in it writes. */
export type ReadingContext = Omit<OperationContext, "store" | "note" | "recorder" | "afterCommitTasks"> & {
  readonly store: StoreReader;
};

/**
 * What is there also in the reader thread. The answer of an operation with `isLarge` follows from it, the path, the
 * query and what `prepare` returned.
 */
export type LargeReadContext = Pick<ReadingContext, "store" | "urls" | "organization" | "answerBounds">;

/** Records what runs in environments; see jobs/recorder.ts. */
export type Recorder = {
  /**
   * Reads the text of a report and records it. The buffer is given away. `environment` is called inside the write, too;
   * it and `accept`, which gets the top-level keys that the shape of the report lacks, throw to refuse the report.
   * @returns the index of the snapshot, null if none was made; `planned` is false, and nothing is recorded, if the
   *   environment was archived in the meantime
   */
  report(task: {
    type: PhysicalType;
    bytes: Buffer;
    actor: Actor;
    environment(): EnvironmentRow;
    accept(ignored: readonly string[]): void;
    entry(artifacts: number): AuditEntry;
  }): Promise<Recorded>;
  /** Re-evaluates the latest snapshot inside a write; null, and nothing is written, when it is too much work. */
  recordWithin(task: { environmentId: number; cause: Cause; report: null; actor: Actor; entry: null }): Recorded | null;
};

type Recorded = { planned: boolean; index: number | null };

export type PolicyPreviewer = {
  /**
   * What a valid policy would change. `warnings`: what would be stored and is probably a mistake, at most 100.
   * @param lane whose turn it is; each organization has its own
   * @throws AppError too_large, unavailable
   */
  preview(lane: string, task: PreviewTask): Promise<DraftPreview & { warnings: FileProblem[] }>;
  /** What a change would turn. @throws AppError as preview */
  previewChange(lane: string, question: PreviewQuestion): Promise<ChangePreview>;
  /** What the next trails of a flow would be under a valid template. @throws AppError as preview */
  previewTemplate(lane: string, question: TemplateQuestion): Promise<TemplatePreview>;
  /** In which environments an artifact would fail. @throws AppError as preview */
  previewStart(lane: string, question: StartQuestion): Promise<StartPreview>;
  /** The warnings of a valid template. @throws AppError as preview */
  compareTemplate(lane: string, task: { organization: OrganizationRow; template: string }): Promise<FileProblem[]>;
};

/** `policy`: the text and its parsed form, with the name of the policy it would replace; `policyId` null for none. */
type PreviewTask = {
  organization: OrganizationRow;
  policy: Pick<StoredPolicyFile, "yaml" | "parsedJson"> & { name: string };
  policyId: number | null;
  environmentIds: readonly number[];
  /** Epoch seconds. */
  at: number;
};

export type RegoService = {
  readonly check: RegoEngine["check"];
  readonly documents: RegoDocuments;
  readonly evaluator: Pick<EvaluationQueue, "hasRoom" | "submit" | "waitFor">;
  /**
   * The input document of trails, as they are now.
   * @param lane whose turn it is; each organization has its own
   * @throws AppError unavailable
   */
  packInput(lane: string, task: InputTask): Promise<PackedInput>;
};

type Jobs = {
  /** Resolves when the job is done, or after `timeoutS` seconds. */
  waitFor(id: number, timeoutS: number): Promise<void>;
};

export type AssayOperation = AnyOperation<OperationContext>;

/** Whether an export of a resource is an operation. */
export const isOperation = (value: unknown): value is AssayOperation =>
  typeof value === "object" && value !== null && "handle" in value && "permission" in value;

/** Declares an operation. */
export const operation = operationFor<OperationContext, ReadingContext>();

/** Declares a read whose answer may be large; see `isLarge`. */
export const largeRead = largeReadFor<ReadingContext, LargeReadContext>();

/** The parts of a context. `urls` and `openApi` depend on the public URL, because one server may have several. */
export type OperationContextParts = Pick<
  OperationContext,
  | "store"
  | "largeJson"
  | "evidence"
  | "packages"
  | "passwords"
  | "mappedOrganizations"
  | "customTypes"
  | "documents"
  | "policyPreviews"
  | "rego"
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
 * Creates the contexts of a running server. A context is bound to one state of its request: after a reauthorization,
 * `updateContext` returns another one that keeps the audit detail and the tasks after the commit.
 */
export function contextFactory({ urls, openApi, ...parts }: OperationContextParts) {
  const bind = (
    request: RequestContext<OrgMembership>,
    { notes, afterCommitTasks, answerBounds }: Pick<OperationContext, "notes" | "afterCommitTasks" | "answerBounds">,
  ): OperationContext => ({
    ...parts,
    get urls() {
      return urls(request.baseUrl);
    },
    openApi: () => openApi(request.baseUrl),
    notes,
    afterCommitTasks,
    answerBounds,
    auditEntry() {
      const { publicId, name, kind, keyPublicId } = requirePresent(request.principal, "principal");
      return {
        organizationId: request.membership?.organizationId ?? null,
        actor: { kind, publicId, name, keyPublicId },
        operation: request.operationId,
        event: requirePresent(request.event, "audit event"),
        target: request.path,
        requestId: request.requestId,
        detail: Object.keys(notes).length > 0 ? { ...notes } : null,
      };
    },
    note: (detail) => void Object.assign(notes, detail),
    ignoreKeys(schema, keys) {
      refuseSlips(schema, keys, request.userAgent);
      noteIgnoredKeys(parts.store.unknownInputs.note, request, keys);
    },
    noteUnknownKeys(problems) {
      const keys = Object.keys(problems).filter((path) => problems[path]?.startsWith(UNKNOWN_KEY));
      noteIgnoredKeys(parts.store.unknownInputs.note, request, keys.slice(0, MAX_UNKNOWN_KEYS).map(excerptName));
    },
    get organization() {
      return requirePresent(request.membership, "organization").organization;
    },
    get role() {
      return requirePresent(request.membership, "organization").role;
    },
    get principal() {
      return requirePresent(request.principal, "principal");
    },
    get account() {
      const { kind, ...principal } = requirePresent(request.principal, "principal");
      if (kind === "operator") throw forbidden(null, "The operator has no account: this is for users with a key");
      return { ...principal, kind };
    },
  });
  return {
    createContext: (request: RequestContext<OrgMembership>, answerBounds = unboundedAnswer()) =>
      bind(request, { notes: {}, afterCommitTasks: [], answerBounds }),
    // With copies: a write that runs twice must not note anything twice.
    updateContext: (
      { notes, afterCommitTasks, answerBounds }: OperationContext,
      request: RequestContext<OrgMembership>,
    ) =>
      bind(request, {
        notes: { ...notes },
        afterCommitTasks: [...afterCommitTasks],
        answerBounds: unboundedAnswer(answerBounds),
      }),
  };
}

function requirePresent<T>(value: T | null, what: string): T {
  if (value === null) throw new Error(`this operation has no ${what}: its permission does not require one`);
  return value;
}
