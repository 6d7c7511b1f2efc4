/**
 * Environment policies, their versions and their history (semantics 5.5).
 *
 * Invariants: a version is never changed or removed, and the versions of a policy are numbered 1, 2, 3, ... without a
 * gap; every version has exactly one `new_version` event, the first one too, and the controls that its text names
 * beside it; a put that changes nothing writes nothing, so that clients may repeat it as often as they like.
 */
import { controlsReferenced, parsePolicy } from "../../domain/policy/document.ts";
import type { PolicyDocument } from "../../domain/policy/document.ts";
import { restorePolicy } from "../../domain/policy/stored.ts";
import { notFound } from "../../errors.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import type { Db, SchemaSources } from "../db/types.ts";

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

/** A version without its text, which has so many bytes. */
export type VersionSize = Pick<PolicyVersionRow, "id" | "version" | "comment" | "timestamp" | "created_by"> & {
  bytes: number;
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
   * The uploaded file, already found to be a valid policy; null when the request had none. `comment` belongs to the
   * version. `controls` are those that its rules name, read from the text unless given; `parsedJson` is what
   * `serializePolicy` makes of it, null or left out for a text that is quickly parsed.
   */
  file: { yaml: string; comment: string; controls?: readonly string[]; parsedJson?: string | null } | null;
};

/**
 * What a put did: `described` tells of a changed description, `version` is the version it added, null when it added
 * none.
 */
export type PolicyPutResult = {
  policy: PolicyRow;
  created: boolean;
  described: boolean;
  version: PolicyVersionRow | null;
};

/** `version_id` null and `version` 0 for a policy without a version. */
export type LatestVersion = Omit<PolicyInForce, "version_id"> & { version_id: number | null };

type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const missing = (organization: OrganizationKey, name: string) =>
  notFound(`Policy '${name}' does not exist in organization '${organization.name}'`);

const COLUMNS = "id, public_id, organization_id, name, description, created_by, created_at, last_modified_at";
const VERSION_COLUMNS = "id, policy_id, version, comment, timestamp, created_by, policy_yaml";

export function policyStore(db: Db, { now, newId }: SchemaSources) {
  const byName = db.prepare<[number, string], PolicyRow>(
    `SELECT ${COLUMNS} FROM policies WHERE organization_id = ? AND name = ?`,
  );
  const byId = db.prepare<[number], PolicyRow>(`SELECT ${COLUMNS} FROM policies WHERE id = ?`);
  const ofOrganization = db.prepare<[number], PolicyRow>(
    `SELECT ${COLUMNS} FROM policies WHERE organization_id = ? ORDER BY name`,
  );
  const insert = db.prepare(
    `INSERT INTO policies (public_id, organization_id, name, description, created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE policies SET description = ?, last_modified_at = ? WHERE id = ?");
  // The length comes from the header of the row: the texts, which may be long, are not read.
  const sizesOf = db.prepare<[number], VersionSize>(
    `SELECT id, version, comment, timestamp, created_by, octet_length(policy_yaml) AS bytes
     FROM policy_versions WHERE policy_id = ? ORDER BY version DESC`,
  );
  const textOf = db.prepare<[number], string>("SELECT policy_yaml FROM policy_versions WHERE id = ?").pluck();
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
  const rulesById = db.prepare<[number], RulesRow>(
    `SELECT policy_id, version, parsed_json, iif(parsed_json IS NULL, policy_yaml, NULL) AS policy_yaml
     FROM policy_versions WHERE id = ?`,
  );
  const insertVersion = db.prepare(
    `INSERT INTO policy_versions (policy_id, version, comment, timestamp, created_by, policy_yaml, parsed_json)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const insertControls = db.prepare(
    `INSERT INTO policy_version_controls (policy_version_id, control_id)
     SELECT ?, id FROM controls WHERE organization_id = ? AND identifier IN (SELECT value FROM json_each(?))`,
  );
  const eventsOf = db.prepare<[number], PolicyEventRow>(
    "SELECT id, policy_id, type, timestamp, user_name, data_json FROM policy_events WHERE policy_id = ? ORDER BY id",
  );
  const insertEvent = db.prepare(
    "INSERT INTO policy_events (policy_id, type, timestamp, user_name, data_json) VALUES (?, ?, ?, ?, ?)",
  );
  const consumersOf = db.prepare<[number], { name: string }>(
    `SELECT environment.name FROM environment_policies attachment JOIN environments environment ON environment.id = attachment.environment_id
     WHERE attachment.policy_id = ? AND environment.archived_at IS NULL ORDER BY environment.name`,
  );
  // Versions never change; but the id of one whose write was undone is given again, so whatever inserts one forgets it.
  const documents = documentCache();

  const find = (organizationId: number, name: string): PolicyRow | null => byName.get(organizationId, name) ?? null;
  const latestVersion = (policyId: number): PolicyVersionRow | null => latestOf.get(policyId) ?? null;

  /** The row of a policy that is known to exist. */
  function get(id: number): PolicyRow {
    const row = byId.get(id);
    if (!row) throw new Error(`policy ${id} is gone`);
    return row;
  }

  function record(
    policyId: number,
    type: PolicyEventType,
    at: number,
    user: string,
    data: Record<string, unknown> | null,
  ): void {
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
    requireLatestVersion(organization: OrganizationKey, name: string): LatestVersion {
      const row = named.get(organization.id, name);
      if (!row) throw missing(organization, name);
      return row;
    },
    get,
    /** All policies of an organization by name. */
    list: (organizationId: number): PolicyRow[] => ofOrganization.all(organizationId),
    /**
     * All versions with the sizes of their texts, newest first; `text` reads one. None for a policy that was created
     * without a file.
     */
    listVersions: (policyId: number): VersionSize[] => sizesOf.all(policyId),
    /** The text of a version, which must exist. */
    getText: (versionId: number): string => textOf.get(versionId) as string,
    /**
     * The version that applies, null for a policy without a file, which takes part in no evaluation (semantics 5.5).
     */
    findLatestVersion: latestVersion,
    /**
     * What an artifact must satisfy in an environment, in the order of attaching; policies without a version are not
     * among it (semantics 5.5).
     */
    listInForce: (environmentId: number): PolicyInForce[] => attached.all(environmentId),
    /**
     * The rules of a version, ready for evaluation. The document is shared: nobody may change it.
     * @throws Error when the version is gone or this program does not accept its text: whoever evaluates decides what
     * that means.
     */
    getDocument(versionId: number): PolicyDocument {
      const known = documents.get(versionId);
      if (known) return known;
      const row = rulesById.get(versionId);
      if (!row) throw new Error(`policy version ${versionId} is gone`);
      const document = readRules(row);
      documents.set(versionId, document, (row.parsed_json ?? row.policy_yaml ?? "").length);
      return document;
    },
    /** The history, oldest first. */
    listEvents: (policyId: number): PolicyEventRow[] => eventsOf.all(policyId),
    /** Names of the active environments to which the policy is attached, in their order. */
    listConsumingEnvironments: (policyId: number): string[] => consumersOf.all(policyId).map(({ name }) => name),

    /**
     * Creates a policy or changes it (semantics 5.5); to be called inside a write, whose serial order is what numbers
     * the versions. The same bytes and description as before: nothing is written, whatever the comment says. Other
     * bytes: the next version. Another description: a `metadata_update`. Both: both. A new policy: a `creation`, and
     * its file becomes version 1. The time of last modification moves with a change only.
     */
    put(organizationId: number, { name, description, user, file }: PolicyPut): PolicyPutResult {
      const at = now();
      const existing = find(organizationId, name);
      const id =
        existing?.id ?? Number(insert.run(newId(), organizationId, name, description, user, at, at).lastInsertRowid);
      if (!existing) record(id, "creation", at, user, null);

      const described = existing !== null && existing.description !== description;
      if (described) record(id, "metadata_update", at, user, null);

      const previous = latestVersion(id);
      let version: PolicyVersionRow | null = null;
      if (file && file.yaml !== previous?.policy_yaml) {
        const number = (previous?.version ?? 0) + 1;
        const versionId = Number(
          insertVersion.run(id, number, file.comment, at, user, file.yaml, file.parsedJson ?? null).lastInsertRowid,
        );
        documents.delete(versionId);
        insertControls.run(versionId, organizationId, JSON.stringify(file.controls ?? controlsOf(file.yaml)));
        record(id, "new_version", at, user, { version: number });
        version = latestVersion(id);
      }

      if (existing && (described || version)) update.run(description, at, id);
      return { policy: get(id), created: existing === null, described, version };
    },
  };
}

/** What the rules of a version are read from: the stored form where there is one, else the text. */
type RulesRow = { policy_id: number; version: number; parsed_json: string | null; policy_yaml: string | null };

/** @throws Error when this program does not accept what is stored. */
function readRules({ policy_id, version, parsed_json, policy_yaml }: RulesRow): PolicyDocument {
  if (parsed_json !== null) return restorePolicy(parsed_json);
  const { policy } = parsePolicy(policy_yaml ?? "", true);
  if (!policy) throw new Error(`version ${version} of policy ${policy_id} is stored but no valid policy`);
  return policy;
}

/** The controls that the rules of a text name; none for a text that is no policy. */
function controlsOf(yaml: string): string[] {
  const { policy } = parsePolicy(yaml, true);
  return policy ? controlsReferenced(policy).map(({ control }) => control) : [];
}

/** Documents by the key of their version, those used last; `characters` is the length of what one was read from. */
function documentCache() {
  const kept = new Map<number, { document: PolicyDocument; characters: number }>();
  let characters = 0;
  const remove = (versionId: number): void => {
    characters -= kept.get(versionId)?.characters ?? 0;
    kept.delete(versionId);
  };
  return {
    get(versionId: number): PolicyDocument | null {
      const known = kept.get(versionId);
      if (!known) return null;
      // Entered anew, so that the Map's order is the order of use.
      kept.delete(versionId);
      kept.set(versionId, known);
      return known.document;
    },
    set(versionId: number, document: PolicyDocument, length: number): void {
      remove(versionId);
      kept.set(versionId, { document, characters: length });
      characters += length;
      for (const oldest of kept.keys()) {
        if (kept.size <= MAX_CACHED_DOCUMENTS && (characters <= MAX_CACHED_CHARS || kept.size === 1)) break;
        remove(oldest);
      }
    },
    delete: remove,
  };
}

/** More policies than most organizations ever attach to their environments. */
const MAX_CACHED_DOCUMENTS = 64;
/** Room for some of the largest policies beside ordinary ones, which are pages. */
const MAX_CACHED_CHARS = 4 << 20;
