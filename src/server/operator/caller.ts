/**
 * Calls of operations by the operator, on data that this process opened: what the command line changes passes the same
 * checks as a request, in the same order, and leaves the same audit entries. There is no server around it: a commit
 * that asks for follow-up work leaves it to the jobs of the server, which notices within a second or when it starts.
 */
import { contextFactory } from "../../api/context.ts";
import type { OperationContext, OrgMembership } from "../../api/context.ts";
import { readBuildInfo } from "../../assets.ts";
import { createPasswordHasher } from "../../auth/password-hashing.ts";
import { newPublicId, newSecret, systemSources } from "../../clock.ts";
import { urlsFor } from "../../contract/urls.ts";
import { findTargetProblem } from "../../domain/network/webhook-url.ts";
import { AppError } from "../../errors.ts";
import { createCallers } from "../../http/in-process.ts";
import type { Caller } from "../../http/in-process.ts";
export type { AnswerOf } from "../../http/in-process.ts";
import type { CallContext, Principal } from "../../http/server-context.ts";
import type { RequestProgress } from "../../http/watchdog/request-progress.ts";
import { createPolicyPreviewer } from "../../jobs/policy-previews.ts";
import { schemaVersion } from "../../store/db/database.ts";
import type { Store } from "../../store/index.ts";
import { createConcurrencyLimit } from "../../workers/concurrency-limit.ts";
import { apiDocument } from "../app.ts";
import { membershipOf } from "../principals.ts";
import { createPreviewPool, openCustomTypes, openDocuments, openLargeJson } from "../worker-threads.ts";

type OperatorCallerOptions = {
  store: Store;
  directory: string;
  /** Runs work in a write transaction, or as a part of the one that is open. */
  write<T>(work: () => T): T;
  /** Runs work that only reads at one moment. */
  read<T>(work: () => T): T;
  /** Public URL of the server, without a trailing slash. */
  baseUrl: string;
  /** What the audit log names; the operation itself unless given. */
  command: string;
  /** The person responsible, for histories; the operator unless given. */
  by: string | null;
};

/** `close` ends the threads that calls started. */
export type OperatorCaller = Pick<Caller, "call" | "open"> & { close(): Promise<void> };

/** The audit log names the operator; the history of memberships names the user of the operating system too. */
const operatorOf = (store: Store, by: string | null): Principal => ({
  kind: "operator",
  id: 0,
  publicId: "",
  name: "operator",
  displayName: by ?? store.operatorName(),
  keyPublicId: "",
});

export function createOperatorCaller(options: OperatorCallerOptions): OperatorCaller {
  const { store, baseUrl, command, by } = options;
  // Each starts its threads on first use.
  const workers = {
    customTypes: openCustomTypes(),
    documents: openDocuments(),
    largeJson: openLargeJson(createConcurrencyLimit(1)),
  };
  const previews = createPreviewPool(options.directory);
  const callers = createCallers({
    ...createContextParts(options, { ...workers, policyPreviews: createPolicyPreviewer({ store, pool: previews }) }),
    ...OUTSIDE_A_SERVER,
    largeJson: workers.largeJson,
    readMembership: (principal, organization) => membershipOf(store, principal, organization),
    read: options.read,
    write: async (work) => options.write(work),
    audit: (context) => store.auditLog.append(context.auditEntry()),
  });
  const caller = callers({
    principal: operatorOf(store, by),
    requestId: newPublicId(),
    baseUrl,
    progress: NO_PROGRESS,
    asker: { command },
  });
  return {
    call: caller.call,
    open: caller.open,
    async close() {
      await Promise.all([...Object.values(workers), previews].map((part) => part.close()));
    },
  };
}

const createContextParts = (
  { store }: OperatorCallerOptions,
  parts: Pick<OperationContext, "customTypes" | "documents" | "largeJson" | "policyPreviews">,
) =>
  contextFactory({
    ...parts,
    store,
    urls: urlsFor,
    openApi: apiDocument,
    evidence: { open: refuseFiles },
    packages: { open: refuseFiles, report: refuseFiles, close: async () => undefined },
    passwords: createPasswordHasher(),
    // Known to the server only: groups give their roles back at the next login.
    mappedOrganizations: new Set(),
    now: systemSources.now,
    newSecret,
    targetProblem: (url) => findTargetProblem(url, []),
    // The server re-evaluates what a changed policy applies to.
    recorder: { report: refuseReport, recordWithin: () => null },
    rego: {
      check: refusePolicies,
      documents: {
        stage: refusePolicies,
        sizeOf: throwPolicies,
        open: refusePolicies,
        openUnpacked: refusePolicies,
        read: refusePolicies,
      },
      evaluator: { hasRoom: () => false, submit: () => undefined, waitFor: async () => undefined },
      packInput: refusePolicies,
    },
    jobs: { waitFor: async () => undefined },
    version: () => ({ ...readBuildInfo(), schema: schemaVersion() }),
  });

const refuseFiles = async (): Promise<never> => {
  throw new AppError("forbidden", "Evidence files and audit packages are read with an API key, over HTTP");
};
const throwPolicies = (): never => {
  throw new AppError("forbidden", "Rego policies are published, read and evaluated with an API key, over HTTP");
};
const refusePolicies = async (): Promise<never> => throwPolicies();
const refuseReport = async (): Promise<never> => {
  throw new Error("the operator records no reports");
};

/** What a command does not have: evidence that arrives, answers made in threads, a key that can be revoked. */
const OUTSIDE_A_SERVER: Omit<
  CallContext<OperationContext, OrgMembership>,
  "largeJson" | "readMembership" | "read" | "write" | "audit" | "createContext" | "updateContext"
> = {
  accessVersion: () => 0,
  isCredentialValid: () => true,
  insertEvidence() {
    throw new Error("the operator reports no evidence");
  },
  afterCommit: async () => undefined,
  answerReader: null,
  databaseState: () => 0,
  evidence: null as never,
  ensureWritable: () => undefined,
};

const NO_PROGRESS: RequestProgress = { enter() {}, requireRunning() {}, onOver() {} };
