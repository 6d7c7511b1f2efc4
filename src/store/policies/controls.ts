/**
 * Controls and their versions (semantics 7.1).
 *
 * Invariants: a version is never changed or removed, and the versions of a control are numbered 1, 2, 3, ... without a
 * gap, the control carrying the number and the fields of the latest; an identifier is never given twice in an
 * organization, because an archived control keeps its own; a change that changes nothing writes nothing.
 */
import { conflict, notFound } from "../../errors.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import { hasAllTags, prepareTagChoices, tagFilterJson, tagTable } from "../db/tags.ts";
import type { TagChange, TagChoice, TagFilter, Tags } from "../db/tags.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** Name of a link to its address. */
export type ControlLinks = Readonly<Record<string, string>>;

export type ControlRow = {
  id: number;
  organization_id: number;
  identifier: string;
  name: string;
  description: string | null;
  /** `Links` as JSON. */
  links_json: string;
  /** Number of the latest version. */
  version: number;
  archived: 0 | 1;
  /** The name that people saw of the creator. */
  created_by: string;
  /** Epoch seconds. */
  created_at: number;
};

/** A control in a list; `tags_json` is an object of texts. */
export type ControlListRow = ControlRow & { tags_json: string };

export type ControlStatus = "created" | "edited" | "archived" | "unarchived";

/** A control as it was from `timestamp` on, until the next version. */
export type ControlVersionRow = {
  version: number;
  status: ControlStatus;
  name: string;
  description: string | null;
  links_json: string;
  /** Epoch seconds. */
  timestamp: number;
  created_by: string;
};

export type ControlFields = { name: string; description: string | null; links: ControlLinks };

export type ControlFilter = {
  /** A part of the name or the identifier in any case; empty: every control. */
  search: string;
  /** Only archived ones, or only active ones. */
  archived: boolean;
  /** All must match. */
  tags: readonly TagFilter[];
};

export type Direction = "asc" | "desc";
type Part = { limit: number; offset: number };
type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const COLUMNS = [
  "id",
  "organization_id",
  "identifier",
  "name",
  "description",
  "links_json",
  "version",
  "archived",
  "created_by",
  "created_at",
]
  .map((name) => `control.${name}`)
  .join(", ");
const VERSION_COLUMNS = "version, status, name, description, links_json, timestamp, created_by";

/** Names are free text, whose cases lower() of SQLite does not know; identifiers are ASCII. */
const folded = (text: string): string => text.normalize("NFC").toLowerCase();

// instr, not LIKE: the characters `_` and `%` mean themselves.
const LISTED = `control.organization_id = @organization AND control.archived = @archived
   AND (instr(control.name_folded, @search) > 0 OR instr(lower(control.identifier), @search) > 0)
   AND ${hasAllTags("control_tags", "control_id", "control.id", "@tags")}`;

type ListParameters = { organization: number; archived: 0 | 1; search: string; tags: string };

export function controlStore(db: Db, { now, newId }: SchemaSources) {
  const byIdentifier = db.prepare<[number, string], ControlRow>(
    `SELECT ${COLUMNS} FROM controls AS control WHERE organization_id = ? AND identifier = ?`,
  );
  const byId = db.prepare<[number], ControlRow>(`SELECT ${COLUMNS} FROM controls AS control WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO controls (public_id, organization_id, identifier, name, name_folded, description, links_json, version, created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`,
  );
  const update = db.prepare(
    "UPDATE controls SET name = ?, name_folded = ?, description = ?, links_json = ?, version = version + 1, archived = ?, last_modified_at = ? WHERE id = ?",
  );
  // The copy of what the control is after the change that made the version.
  const insertVersion = db.prepare(
    `INSERT INTO control_versions (control_id, version, status, name, description, links_json, timestamp, created_by)
     SELECT id, version, ?, name, description, links_json, last_modified_at, ? FROM controls WHERE id = ?`,
  );
  const versionsOf = (order: string) =>
    db.prepare<[number, number, number], ControlVersionRow>(
      `SELECT ${VERSION_COLUMNS} FROM control_versions WHERE control_id = ? ORDER BY version ${order} LIMIT ? OFFSET ?`,
    );
  const versions = { asc: versionsOf("ASC"), desc: versionsOf("DESC") };
  const oneVersion = db.prepare<[number, number], ControlVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM control_versions WHERE control_id = ? AND version = ?`,
  );
  const listing = (order: string) =>
    db.prepare<[ListParameters & Part], ControlListRow>(
      `SELECT ${COLUMNS}, (SELECT json_group_object(key, value) FROM control_tags WHERE control_id = control.id) AS tags_json
       FROM controls AS control WHERE ${LISTED} ORDER BY ${order} LIMIT @limit OFFSET @offset`,
    );
  const lists = {
    asc: listing("control.name ASC, control.id ASC"),
    desc: listing("control.name DESC, control.id DESC"),
  };
  const counting = db.prepare<[ListParameters], { total: number }>(
    `SELECT count(*) AS total FROM controls AS control WHERE ${LISTED}`,
  );
  const referencing = db.prepare<[number], { name: string }>(
    `SELECT policy.name FROM policy_version_controls AS reference
       JOIN policy_versions AS version ON version.id = reference.policy_version_id JOIN policies AS policy ON policy.id = version.policy_id
     WHERE reference.control_id = ? AND version.version = (SELECT max(version) FROM policy_versions WHERE policy_id = version.policy_id)
     ORDER BY policy.name`,
  );
  const tags = tagTable(db, "control_tags", "control_id");
  const setModified = db.prepare("UPDATE controls SET last_modified_at = ? WHERE id = ?");
  const choices = prepareTagChoices(db, "control_tags", "control_id", "controls");

  const find = (organizationId: number, identifier: string): ControlRow | null =>
    byIdentifier.get(organizationId, identifier) ?? null;

  function get(id: number): ControlRow {
    const row = byId.get(id);
    if (!row) throw new Error(`control ${id} is gone`);
    return row;
  }

  function change(
    control: ControlRow,
    status: ControlStatus,
    fields: Pick<ControlRow, "name" | "description" | "links_json" | "archived">,
    user: string,
  ): ControlRow {
    update.run(
      fields.name,
      folded(fields.name),
      fields.description,
      fields.links_json,
      fields.archived,
      now(),
      control.id,
    );
    insertVersion.run(status, user, control.id);
    return get(control.id);
  }

  const parameters = (organization: number, { search, archived, tags: wanted }: ControlFilter): ListParameters => ({
    organization,
    archived: archived ? 1 : 0,
    search: folded(search),
    tags: tagFilterJson(wanted),
  });

  return {
    /** The control of that identifier, archived or not; null when there is none. */
    find,
    /** The control of that identifier, archived or not. @throws AppError not_found with the text of messages 7. */
    require(organization: OrganizationKey, identifier: string): ControlRow {
      const row = find(organization.id, identifier);
      if (!row) throw notFound(`Control '${identifier}' does not exist in organization '${organization.name}'`);
      return row;
    },

    /**
     * Creates a control with its version 1; to be called inside a write. `user`: the name that people see of the
     * caller.
     * @throws AppError conflict, which no repetition helps against, when the identifier was ever taken (semantics 7.1).
     */
    create(
      organization: OrganizationKey,
      identifier: string,
      { name, description, links }: ControlFields,
      user: string,
    ): ControlRow {
      if (find(organization.id, identifier))
        throw conflict(
          `A control with identifier '${identifier}' already exists in organization '${organization.name}'`,
        );
      const at = now();
      const id = Number(
        insert.run(
          newId(),
          organization.id,
          identifier,
          name,
          folded(name),
          description,
          JSON.stringify(links),
          user,
          at,
          at,
        ).lastInsertRowid,
      );
      insertVersion.run("created", user, id);
      return get(id);
    },

    /**
     * Gives a control these fields: the next version, and none when it has them already. @returns the control as it is
     * now.
     */
    update(control: ControlRow, { name, description, links }: ControlFields, user: string): ControlRow {
      const sameLinks = inOrder(JSON.parse(control.links_json) as ControlLinks) === inOrder(links);
      if (name === control.name && description === control.description && sameLinks) return control;
      const links_json = sameLinks ? control.links_json : JSON.stringify(links);
      return change(control, "edited", { name, description, links_json, archived: control.archived }, user);
    },

    /**
     * Archives a control or brings it back: the next version, and none when it is so already. @returns the control as
     * it is now.
     */
    setArchived(control: ControlRow, archived: boolean, user: string): ControlRow {
      if ((control.archived === 1) === archived) return control;
      return change(control, archived ? "archived" : "unarchived", { ...control, archived: archived ? 1 : 0 }, user);
    },

    /** A part of the versions; how many there are is the number of the latest. */
    listVersions: (controlId: number, direction: Direction, { limit, offset }: Part): ControlVersionRow[] =>
      versions[direction].all(controlId, limit, offset),
    /** One version, null when there is none of that number. */
    findVersion: (controlId: number, version: number): ControlVersionRow | null =>
      oneVersion.get(controlId, version) ?? null,

    /** Controls of an organization by name. */
    list: (
      organizationId: number,
      filter: ControlFilter,
      direction: Direction,
      { limit, offset }: Part,
    ): ControlListRow[] => lists[direction].all({ ...parameters(organizationId, filter), limit, offset }),
    /** How many controls `list` would give in all. */
    count: (organizationId: number, filter: ControlFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,

    /** Names of the policies whose latest version has a rule for the control, in their order. */
    listReferencingPolicies: (controlId: number): string[] => referencing.all(controlId).map(({ name }) => name),

    /** The tags of a control. */
    getTags: (controlId: number): Tags => tags.get(controlId),
    /** Sets and removes tags; they belong to no version (semantics 7.1). */
    patchTags(controlId: number, change: TagChange): void {
      tags.patch(controlId, change);
      setModified.run(now(), controlId);
    },
    /** Every pair of key and value on a control of the organization, archived ones included, each once. */
    listTagChoices: (organizationId: number): TagChoice[] => choices.all(organizationId),
  };
}

/** Links are a set of pairs: the order in which a client writes them is no change. */
const inOrder = (links: ControlLinks): string =>
  JSON.stringify(Object.entries(links).sort(([a], [b]) => (a < b ? -1 : 1)));
