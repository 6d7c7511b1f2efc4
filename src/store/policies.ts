/**
 * Environment policies, their versions and their history (semantics 5.5).
 *
 * Invariants: a version is never changed or removed, and the versions of a policy are numbered 1, 2, 3, ... without a gap;
 * every version has exactly one `new_version` event, the first one too, and the controls that its text names beside it; a put that changes nothing writes nothing, so that
 * clients may repeat it as often as they like.
 */
import { controlsReferenced, parsePolicy } from "../domain/policy/document.ts";
import type { PolicyDocument } from "../domain/policy/document.ts";
import { notFound } from "../errors.ts";
import type { Db, Sources } from "./database.ts";
import type { OrganizationRow } from "./organizations.ts";

export type PolicyRow = {
  id: number;
  public_id: string;
  organization_id: number;
  name: string;
  description: string;
  /** The name that people saw of the creator. */
  created_by: string;
  created_at: number;
  last_modified_at: number;
};

export type PolicyVersionRow = {
  id: number;
  policy_id: number;
  /** 1 for the oldest. */
  version: number;
  comment: string;
  timestamp: number;
  created_by: string;
  /** The text of the file as it was uploaded, a byte order mark included. */
  policy_yaml: string;
};

/** A policy that is attached to an environment, at the version that applies there. */
export type PolicyInForce = { policy_name: string; version_id: number; version: number };

export type PolicyEventType = "creation" | "metadata_update" | "new_version" | "renaming" | "archiving";

export type PolicyEventRow = {
  id: number;
  policy_id: number;
  type: PolicyEventType;
  timestamp: number;
  user_name: string;
  /** A JSON object, null when there is nothing to add. */
  data_json: string | null;
};

export type PolicyPut = {
  name: string;
  description: string;
  /** The name that people see of the caller. */
  user: string;
  /**
   * The uploaded file, already found to be a valid policy; null when the request had none. `comment` belongs to the version;
   * `policy` are its rules where they are at hand already.
   */
  file: { yaml: string; comment: string; policy?: PolicyDocument } | null;
};

/** What a put did: `described` tells of a changed description, `version` is the version it added, null when it added none. */
export type PolicyPutResult = { policy: PolicyRow; created: boolean; described: boolean; version: PolicyVersionRow | null };

/** `version_id` null and `version` 0 for a policy without a version. */
export type LatestVersion = Omit<PolicyInForce, "version_id"> & { version_id: number | null };

type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const missing = (organization: OrganizationKey, name: string) => notFound(`Policy '${name}' does not exist in organization '${organization.name}'`);

const COLUMNS = "id, public_id, organization_id, name, description, created_by, created_at, last_modified_at";
const VERSION_COLUMNS = "id, policy_id, version, comment, timestamp, created_by, policy_yaml";

export function policyStore(db: Db, { now, newId }: Sources) {
  const byName = db.prepare<[number, string], PolicyRow>(`SELECT ${COLUMNS} FROM policies WHERE organization_id = ? AND name = ?`);
  const byId = db.prepare<[number], PolicyRow>(`SELECT ${COLUMNS} FROM policies WHERE id = ?`);
  const ofOrganization = db.prepare<[number], PolicyRow>(`SELECT ${COLUMNS} FROM policies WHERE organization_id = ? ORDER BY name`);
  const insert = db.prepare(
    `INSERT INTO policies (public_id, organization_id, name, description, created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE policies SET description = ?, last_modified_at = ? WHERE id = ?");
  const versionsOf = db.prepare<[number], PolicyVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM policy_versions WHERE policy_id = ? ORDER BY version`,
  );
  const latestOf = db.prepare<[number], PolicyVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM policy_versions WHERE policy_id = ? ORDER BY version DESC LIMIT 1`,
  );
  const attached = db.prepare<[number], PolicyInForce>(
    `SELECT p.name AS policy_name, v.id AS version_id, v.version FROM environment_policies ep
       JOIN policies p ON p.id = ep.policy_id JOIN policy_versions v ON v.policy_id = ep.policy_id
     WHERE ep.environment_id = ? AND v.version = (SELECT max(version) FROM policy_versions WHERE policy_id = ep.policy_id) ORDER BY ep.position, ep.policy_id`,
  );
  // Without the text, which may be long: its rules are at hand parsed.
  const named = db.prepare<[number, string], LatestVersion>(
    `SELECT p.name AS policy_name, v.id AS version_id, coalesce(v.version, 0) AS version FROM policies p LEFT JOIN policy_versions v
       ON v.policy_id = p.id AND v.version = (SELECT max(version) FROM policy_versions WHERE policy_id = p.id)
     WHERE p.organization_id = ? AND p.name = ?`,
  );
  const versionById = db.prepare<[number], PolicyVersionRow>(`SELECT ${VERSION_COLUMNS} FROM policy_versions WHERE id = ?`);
  const insertVersion = db.prepare(
    "INSERT INTO policy_versions (policy_id, version, comment, timestamp, created_by, policy_yaml) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const insertControls = db.prepare(
    `INSERT INTO policy_version_controls (policy_version_id, control_id)
     SELECT ?, id FROM controls WHERE organization_id = ? AND identifier IN (SELECT value FROM json_each(?))`,
  );
  const eventsOf = db.prepare<[number], PolicyEventRow>(
    "SELECT id, policy_id, type, timestamp, user_name, data_json FROM policy_events WHERE policy_id = ? ORDER BY id",
  );
  const insertEvent = db.prepare("INSERT INTO policy_events (policy_id, type, timestamp, user_name, data_json) VALUES (?, ?, ?, ?, ?)");
  const consumersOf = db.prepare<[number], { name: string }>(
    `SELECT environment.name FROM environment_policies attachment JOIN environments environment ON environment.id = attachment.environment_id
     WHERE attachment.policy_id = ? AND environment.archived_at IS NULL ORDER BY environment.name`,
  );
  const documents = documentCache();
  // Versions never change; but the id of one whose write was undone is given again, so who inserts one forgets what was there.
  const documentOf = new Map<number, PolicyDocument>();

  const find = (organizationId: number, name: string): PolicyRow | null => byName.get(organizationId, name) ?? null;
  const latestVersion = (policyId: number): PolicyVersionRow | null => latestOf.get(policyId) ?? null;

  /** The row of a policy that is known to exist. */
  function get(id: number): PolicyRow {
    const row = byId.get(id);
    if (!row) throw new Error(`policy ${id} is gone`);
    return row;
  }

  function record(policyId: number, type: PolicyEventType, at: number, user: string, data: Record<string, unknown> | null): void {
    insertEvent.run(policyId, type, at, user, data === null ? null : JSON.stringify(data));
  }

  return {
    /** The policy of that name, null when there is none. */
    find,
    /** The policy of that name. @throws AppError not_found with the text of messages 13. */
    require(organization: OrganizationKey, name: string): PolicyRow {
      const row = find(organization.id, name);
      if (!row) throw missing(organization, name);
      return row;
    },
    /** The latest version of the policy of that name. @throws AppError not_found with the text of messages 13. */
    latestOf(organization: OrganizationKey, name: string): LatestVersion {
      const row = named.get(organization.id, name);
      if (!row) throw missing(organization, name);
      return row;
    },
    get,
    /** All policies of an organization by name. */
    list: (organizationId: number): PolicyRow[] => ofOrganization.all(organizationId),
    /** All versions, oldest first (wire-contract 14); none for a policy that was created without a file. */
    versions: (policyId: number): PolicyVersionRow[] => versionsOf.all(policyId),
    /** The version that applies, null for a policy without a file, which takes part in no evaluation (semantics 5.5). */
    latestVersion,
    /** What an artifact must satisfy in an environment, in the order of attaching; policies without a version are not among it (semantics 5.5). */
    inForce: (environmentId: number): PolicyInForce[] => attached.all(environmentId),
    /**
     * The rules of a version, ready for evaluation. The document is shared: nobody may change it.
     * @throws Error when the version is gone or this program does not accept its text: whoever evaluates decides what that means.
     */
    parsed(versionId: number): PolicyDocument {
      const known = documentOf.get(versionId);
      if (known) return known;
      const row = versionById.get(versionId);
      if (!row) throw new Error(`policy version ${versionId} is gone`);
      const document = documents(row.policy_yaml);
      if (!document) throw new Error(`version ${row.version} of policy ${row.policy_id} is stored but no valid policy`);
      if (row.policy_yaml.length <= ORDINARY_CHARACTERS) {
        if (documentOf.size >= CACHED_DOCUMENTS) documentOf.clear();
        documentOf.set(versionId, document);
      }
      return document;
    },
    /** The history, oldest first. */
    events: (policyId: number): PolicyEventRow[] => eventsOf.all(policyId),
    /** Names of the active environments to which the policy is attached, in their order. */
    consumingEnvironments: (policyId: number): string[] => consumersOf.all(policyId).map(({ name }) => name),

    /**
     * Creates a policy or changes it (semantics 5.5); to be called inside a write, whose serial order is what numbers the
     * versions. The same bytes and description as before: nothing is written, whatever the comment says. Other bytes: the next version.
     * Another description: a `metadata_update`. Both: both. A new policy: a `creation`, and its file becomes version 1.
     * The time of last modification moves with a change only.
     */
    put(organizationId: number, { name, description, user, file }: PolicyPut): PolicyPutResult {
      const at = now();
      const existing = find(organizationId, name);
      const id = existing?.id ?? Number(insert.run(newId(), organizationId, name, description, user, at, at).lastInsertRowid);
      if (!existing) record(id, "creation", at, user, null);

      const described = existing !== null && existing.description !== description;
      if (described) record(id, "metadata_update", at, user, null);

      const previous = latestVersion(id);
      let version: PolicyVersionRow | null = null;
      if (file && file.yaml !== previous?.policy_yaml) {
        const number = (previous?.version ?? 0) + 1;
        const versionId = Number(insertVersion.run(id, number, file.comment, at, user, file.yaml).lastInsertRowid);
        documentOf.delete(versionId);
        const rules = file.policy ?? documents(file.yaml);
        if (rules) insertControls.run(versionId, organizationId, JSON.stringify(controlsReferenced(rules).map(({ control }) => control)));
        record(id, "new_version", at, user, { version: number });
        version = latestVersion(id);
      }

      if (existing && (described || version)) update.run(description, at, id);
      return { policy: get(id), created: existing === null, described, version };
    },
  };
}

/**
 * Text -> document, keeping the ones used last. The text itself is the key and not the id of its version: when a write is
 * undone, the next version gets the id that was given back, with another text.
 * @returns a function that gives null for a text that is no valid policy.
 */
function documentCache(): (yaml: string) => PolicyDocument | null {
  const kept = new Map<string, PolicyDocument>();
  let characters = 0;
  return (yaml) => {
    const known = kept.get(yaml);
    if (known) {
      kept.delete(yaml);
      kept.set(yaml, known);
      return known;
    }
    const { policy } = parsePolicy(yaml);
    if (!policy) return null;
    kept.set(yaml, policy);
    characters += yaml.length;
    for (const oldest of kept.keys()) {
      if (kept.size <= CACHED_DOCUMENTS && characters <= CACHED_CHARACTERS) break;
      kept.delete(oldest);
      characters -= oldest.length;
    }
    return policy;
  };
}

/** More policies than most organizations ever attach to their environments. */
const CACHED_DOCUMENTS = 64;
/** A policy of a few hundred rules. */
const ORDINARY_CHARACTERS = 65_536;
/** Room for one file of the largest accepted size beside ordinary ones, which are pages. */
const CACHED_CHARACTERS = 16 << 20;
