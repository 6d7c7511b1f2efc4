/**
 * Environment policies, their versions and their history (semantics 5.5).
 *
 * Invariants: versions are immutable, and those of a policy are numbered 1, 2, 3, ... without gaps; every version has
 * exactly one `new_version` event, the first one included, and rows for the controls that its text names; a put that
 * changes nothing writes nothing, so that clients may repeat it.
 */
import { MAX_INLINE_DOCUMENT_BYTES } from "../../domain/documents.ts";
import { createLru } from "../../domain/lru.ts";
import { controlReferencesOf, parsePolicy } from "../../domain/policy/document.ts";
import type { PolicyDocument } from "../../domain/policy/document.ts";
import { locateRules } from "../../domain/policy/lines.ts";
import type { PolicyLines } from "../../domain/policy/lines.ts";
import { restorePolicy } from "../../domain/policy/stored.ts";
import type { AppliedPolicy } from "../../domain/compliance/environment.ts";
import { notFound } from "../../errors.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import { number, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const POLICY = {
  id: number,
  public_id: string,
  organization_id: number,
  name: string,
  description: string,
  /** The display name of the creator at the time. */
  created_by: string,
  created_at: number,
  last_modified_at: number,
};
export type PolicyRow = RowOf<typeof POLICY>;

const VERSION = {
  id: number,
  policy_id: number,
  /** 1 for the oldest. */
  version: number,
  comment: string,
  timestamp: number,
  created_by: string,
  /** The text of the file as uploaded, including a byte order mark. */
  policy_yaml: string,
};
type PolicyVersionRow = RowOf<typeof VERSION>;

/** A version with the size of its text in bytes in place of the text. */
type VersionSize = Pick<PolicyVersionRow, "id" | "version" | "comment" | "timestamp" | "created_by"> & {
  bytes: number;
};

/** A policy attached to an environment, at the version that applies there. */
type PolicyInForce = { policy_name: string; version_id: number; version: number };

type PolicyEventType = "creation" | "metadata_update" | "new_version" | "renaming" | "archiving";

export type PolicyEventRow = {
  id: number;
  policy_id: number;
  type: PolicyEventType;
  timestamp: number;
  user_name: string;
  /** A JSON object; null without further data. */
  data_json: string | null;
};

type PolicyPut = {
  name: string;
  description: string;
  /** The display name of the caller. */
  user: string;
  /**
   * The uploaded file, already validated; null when the request had none. `comment` belongs to the version. `controls`
   * are those that its rules name, read from the text if absent; `parsedJson` is the result of `serializePolicy`, null
   * or absent for a text that is quick to parse.
   */
  file: { yaml: string; comment: string; controls?: readonly string[]; parsedJson?: string | null } | null;
};

/**
 * The effect of a put. `described`: the description changed. `version`: the version it added; null when it added none.
 */
type PolicyPutResult = {
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

const COLUMNS = selectList(POLICY);
const VERSION_COLUMNS = selectList(VERSION);

/** The policies of an organization with a text in their name. */
const FOUND = "organization_id = ? AND instr(lower(name), lower(?)) > 0";

export function policyStore(db: Db, { now, newId }: SchemaSources) {
  const byName = db.prepare<[number, string], PolicyRow>(
    `SELECT ${COLUMNS} FROM policies WHERE organization_id = ? AND name = ?`,
  );
  const byId = db.prepare<[number], PolicyRow>(`SELECT ${COLUMNS} FROM policies WHERE id = ?`);
  const byOrganization = db.prepare<[number, string, number, number], PolicyRow>(
    `SELECT ${COLUMNS} FROM policies WHERE ${FOUND} ORDER BY name LIMIT ? OFFSET ?`,
  );
  const countFound = db.prepare<[number, string], number>(`SELECT count(*) FROM policies WHERE ${FOUND}`).pluck();
  const insert = db.prepare(
    `INSERT INTO policies (public_id, organization_id, name, description, created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE policies SET description = ?, last_modified_at = ? WHERE id = ?");
  // SQLite knows the size from the header of the row: the texts, which may be long, are not read.
  const sizesOf = db.prepare<[number], VersionSize>(
    `SELECT id, version, comment, timestamp, created_by, octet_length(policy_yaml) AS bytes
     FROM policy_versions WHERE policy_id = ? ORDER BY version DESC`,
  );
  const textById = db.prepare<[number], string>("SELECT policy_yaml FROM policy_versions WHERE id = ?").pluck();
  const latestVersion = db.prepare<[number], PolicyVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM policy_versions WHERE policy_id = ? ORDER BY version DESC LIMIT 1`,
  );
  const inForce = db.prepare<[number], PolicyInForce>(
    `SELECT pol.name AS policy_name, pv.id AS version_id, pv.version
     FROM environment_policies ep
       JOIN policies pol ON pol.id = ep.policy_id JOIN policy_versions pv ON pv.policy_id = ep.policy_id
     WHERE ep.environment_id = ?
       AND pv.version = (SELECT max(version) FROM policy_versions WHERE policy_id = ep.policy_id)
     ORDER BY ep.position, ep.policy_id`,
  );
  // Without the text, which may be long: the rules are cached in parsed form.
  const latestByName = db.prepare<[number, string], LatestVersion>(
    `SELECT pol.name AS policy_name, pv.id AS version_id, coalesce(pv.version, 0) AS version
     FROM policies pol LEFT JOIN policy_versions pv ON pv.policy_id = pol.id
       AND pv.version = (SELECT max(version) FROM policy_versions WHERE policy_id = pol.id)
     WHERE pol.organization_id = ? AND pol.name = ?`,
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
  const events = db.prepare<[number], PolicyEventRow>(
    "SELECT id, policy_id, type, timestamp, user_name, data_json FROM policy_events WHERE policy_id = ? ORDER BY id",
  );
  const insertEvent = db.prepare(
    "INSERT INTO policy_events (policy_id, type, timestamp, user_name, data_json) VALUES (?, ?, ?, ?, ?)",
  );
  const consumers = db.prepare<[number], { name: string }>(
    `SELECT env.name FROM environment_policies ep JOIN environments env ON env.id = ep.environment_id
     WHERE ep.policy_id = ? AND env.archived_at IS NULL ORDER BY env.name`,
  );
  // Versions never change, but SQLite reuses the id of one whose write was rolled back, so every insert clears its
  // entries.
  const documents = createLru<number, PolicyDocument>({
    maxEntries: MAX_CACHED_DOCUMENTS,
    maxWeight: MAX_CACHED_CHARS,
  });

  const located = createLru<number, PolicyLines>({ maxEntries: MAX_CACHED_DOCUMENTS });

  const find = (organizationId: number, name: string): PolicyRow | null => byName.get(organizationId, name) ?? null;
  const findLatestVersion = (policyId: number): PolicyVersionRow | null => latestVersion.get(policyId) ?? null;

  /** The policy with that id; it must exist. */
  function get(id: number): PolicyRow {
    const row = byId.get(id);
    if (!row) throw new Error(`policy ${id} is gone`);
    return row;
  }

  function appendEvent(
    policyId: number,
    type: PolicyEventType,
    { at, user, data = null }: { at: number; user: string; data?: Record<string, unknown> | null },
  ): void {
    insertEvent.run(policyId, type, at, user, data === null ? null : JSON.stringify(data));
  }

  function getDocument(versionId: number): PolicyDocument {
    const cached = documents.get(versionId);
    if (cached) return cached;
    const row = rulesById.get(versionId);
    if (!row) throw new Error(`policy version ${versionId} is gone`);
    const document = readRules(row);
    const chars = (row.parsed_json ?? row.policy_yaml ?? "").length;
    // A document larger than the cache counts as its whole: parsing it for every artifact would be far worse.
    documents.set(versionId, document, Math.min(chars, MAX_CACHED_CHARS));
    return document;
  }

  return {
    /** The policy with that name; null without one. */
    find,
    /** The policy with that name. @throws AppError not_found with the text of messages 13. */
    require(organization: OrganizationKey, name: string): PolicyRow {
      const row = find(organization.id, name);
      if (!row) throw missing(organization, name);
      return row;
    },
    /** The latest version of the policy with that name. @throws AppError not_found with the text of messages 13. */
    requireLatestVersion(organization: OrganizationKey, name: string): LatestVersion {
      const row = latestByName.get(organization.id, name);
      if (!row) throw missing(organization, name);
      return row;
    },
    get,
    /** The policies of an organization by name. @param search part of the name, in any case; empty for all */
    list: (
      organizationId: number,
      { search = "", window = null }: { search?: string; window?: { limit: number; offset: number } | null } = {},
    ): PolicyRow[] => byOrganization.all(organizationId, search, window?.limit ?? -1, window?.offset ?? 0),
    /** How many policies `list` has without a window. */
    count: (organizationId: number, search: string): number => countFound.get(organizationId, search) ?? 0,
    /** All versions with the sizes of their texts, newest first. None for a policy that was created without a file. */
    listVersions: (policyId: number): VersionSize[] => sizesOf.all(policyId),
    /** The text of a version, which must exist. */
    getText: (versionId: number): string => textById.get(versionId) as string,
    /**
     * The version that applies; null for a policy without a file, which takes part in no evaluation (semantics 5.5).
     */
    findLatestVersion,
    /** The policies that apply in an environment, in the order of attachment, without those without a version. */
    listInForce: (environmentId: number): PolicyInForce[] => inForce.all(environmentId),
    /** The same with their rules. @throws Error as getDocument */
    listApplied: (environmentId: number): AppliedPolicy[] =>
      inForce.all(environmentId).map(({ policy_name, version_id, version }) => ({
        policyName: policy_name,
        versionId: version_id,
        version,
        document: getDocument(version_id),
      })),
    /**
     * The rules of a version. The document is shared: do not change it.
     * @throws Error when the version is gone or this program does not accept its text; the caller decides what follows.
     */
    getDocument,
    /**
     * Where the rules of a version stand in its text, which must exist; null for a text that takes long to read, unless
     * `keepLines` was given the result.
     */
    findLines(versionId: number): PolicyLines | null {
      const cached = located.get(versionId);
      if (cached) return cached;
      const text = textById.get(versionId);
      if (text === undefined || Buffer.byteLength(text) > MAX_INLINE_DOCUMENT_BYTES) return null;
      const lines = locateRules(text);
      located.set(versionId, lines);
      return lines;
    },
    /** Keeps the lines of a version that were found elsewhere. */
    keepLines: (versionId: number, lines: PolicyLines): void => located.set(versionId, lines),
    /** The history, oldest first. */
    listEvents: (policyId: number): PolicyEventRow[] => events.all(policyId),
    /** Names of the active environments that the policy is attached to, ordered. */
    listConsumingEnvironments: (policyId: number): string[] => consumers.all(policyId).map(({ name }) => name),

    /**
     * Creates or changes a policy (semantics 5.5). Call it inside a write, whose serial order numbers the versions.
     *
     * The same bytes and description write nothing, whatever the comment. Other bytes add the next version, another
     * description a `metadata_update`. A new policy has a `creation`, and its file becomes version 1. The time of last
     * modification moves with a change only.
     */
    put(organizationId: number, { name, description, user, file }: PolicyPut): PolicyPutResult {
      const at = now();
      const existing = find(organizationId, name);
      const id =
        existing?.id ?? Number(insert.run(newId(), organizationId, name, description, user, at, at).lastInsertRowid);
      if (!existing) appendEvent(id, "creation", { at, user });

      const described = existing !== null && existing.description !== description;
      if (described) appendEvent(id, "metadata_update", { at, user });

      const previous = findLatestVersion(id);
      let version: PolicyVersionRow | null = null;
      if (file && file.yaml !== previous?.policy_yaml) {
        const number = (previous?.version ?? 0) + 1;
        const versionId = Number(
          insertVersion.run(id, number, file.comment, at, user, file.yaml, file.parsedJson ?? null).lastInsertRowid,
        );
        documents.delete(versionId);
        located.delete(versionId);
        insertControls.run(versionId, organizationId, JSON.stringify(file.controls ?? controlsOf(file.yaml)));
        appendEvent(id, "new_version", { at, user, data: { version: number } });
        version = findLatestVersion(id);
      }

      if (existing && (described || version)) update.run(description, at, id);
      return { policy: get(id), created: existing === null, described, version };
    },
  };
}

/** The source of the rules of a version: the stored parsed form if there is one, else the text. */
type RulesRow = { policy_id: number; version: number; parsed_json: string | null; policy_yaml: string | null };

/** @throws Error when this program does not accept the stored rules. */
function readRules({ policy_id, version, parsed_json, policy_yaml }: RulesRow): PolicyDocument {
  if (parsed_json !== null) return restorePolicy(parsed_json);
  const { policy } = parsePolicy(policy_yaml ?? "", { isStored: true });
  if (!policy) throw new Error(`version ${version} of policy ${policy_id} is stored but no valid policy`);
  return policy;
}

/** The controls that the rules of a text name; none for a text that is not a valid policy. */
function controlsOf(yaml: string): string[] {
  const { policy } = parsePolicy(yaml, { isStored: true });
  return policy ? controlReferencesOf(policy).map(({ control }) => control) : [];
}

/** More policies than most organizations ever attach to their environments. */
const MAX_CACHED_DOCUMENTS = 64;
/** Enough for some of the largest policies beside ordinary ones, which are a few pages long. */
const MAX_CACHED_CHARS = 4 << 20;
