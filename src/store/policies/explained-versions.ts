/** Policy versions as explanations of verdicts show them. */
import type { PolicyDocument } from "../../domain/policy/document.ts";
import type { DbReader } from "../db/types.ts";
import type { policyStore } from "./policies.ts";

/** A policy version and its author. */
export type ExplainedVersion = {
  versionId: number;
  /** Public id of the policy. */
  policyId: string;
  policy: string;
  version: number;
  comment: string;
  createdBy: string;
  /** Epoch seconds. */
  createdAt: number;
  /** null when the stored text is not a valid policy, which is a problem. */
  document: PolicyDocument | null;
};

/** Returns a policy version. @throws Error when it is gone */
export type GetVersion = (versionId: number) => ExplainedVersion;

type VersionRow = {
  id: number;
  policy_public_id: string;
  name: string;
  version: number;
  comment: string;
  created_by: string;
  timestamp: number;
};

export function explainedVersionStore(db: DbReader, policies: Pick<ReturnType<typeof policyStore>, "getDocument">) {
  const byId = db.prepare<[number], VersionRow>(
    `SELECT pv.id, pol.public_id AS policy_public_id, pol.name, pv.version, pv.comment, pv.created_by, pv.timestamp
     FROM policy_versions pv JOIN policies pol ON pol.id = pv.policy_id WHERE pv.id = ?`,
  );

  function read(versionId: number): ExplainedVersion {
    const row = byId.get(versionId);
    if (!row) throw new Error(`policy version ${versionId} is gone`);
    return {
      versionId,
      policyId: row.policy_public_id,
      policy: row.name,
      version: row.version,
      comment: row.comment,
      createdBy: row.created_by,
      createdAt: row.timestamp,
      document: nullOnError(() => policies.getDocument(versionId)),
    };
  }

  return {
    /** A reader for one explanation: it reads each version once. */
    createReader(): GetVersion {
      const cache = new Map<number, ExplainedVersion>();
      return (versionId) => {
        const version = cache.get(versionId) ?? read(versionId);
        cache.set(versionId, version);
        return version;
      };
    },
  };
}

function nullOnError<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}
