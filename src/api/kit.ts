/** What every operation of Assay works with, and how operations are made. */
import { operationFor } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import type { Caller, Membership, RequestFacts } from "../http/mount.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import type { Store } from "../store/index.ts";
import type { Urls } from "./urls.ts";
import type { EvidenceReader } from "./evidence.ts";

export type OrgMembership = Membership & { organization: OrganizationRow };

export type Context = {
  readonly store: Store;
  readonly urls: Urls;
  readonly evidence: EvidenceReader;
  /** Epoch seconds. */
  now(): number;
  /** The OpenAPI document of this server. */
  openApi(): unknown;
  /** The organization of the path; only on operations below one. */
  readonly organization: OrganizationRow;
  /** Who calls; only on operations that need a key. */
  readonly caller: Caller;
  /** Adds facts to the audit entry of this write. */
  note(detail: Record<string, unknown>): void;
  /** What was noted so far. */
  readonly noted: Record<string, unknown>;
};

export type AssayOperation = AnyOperation<Context>;

/** Declares an operation. */
export const operation = operationFor<Context>();

/** Makes the contexts of a running server. */
export function contextFactory(parts: { store: Store; urls: Urls; evidence: EvidenceReader; now(): number; openApi(): unknown }) {
  return (facts: RequestFacts<OrgMembership>): Context => {
    const noted: Record<string, unknown> = {};
    return {
      ...parts,
      noted,
      note: (detail) => void Object.assign(noted, detail),
      get organization() {
        return demand(facts.membership, "organization").organization;
      },
      get caller() {
        return demand(facts.caller, "caller");
      },
    };
  };
}

function demand<T>(value: T | null, what: string): T {
  if (value === null) throw new Error(`this operation has no ${what}: its permission does not ask for one`);
  return value;
}
