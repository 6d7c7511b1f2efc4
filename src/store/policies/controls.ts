/**
 * Controls and their versions (semantics 7.1).
 *
 * Invariants: versions are immutable, those of a control are numbered 1, 2, 3, ... without gaps, and the control
 * carries the number and the fields of the latest; an identifier is never reused in an organization, because an
 * archived control keeps its own; a change that changes nothing writes nothing.
 */
import { hasMembers, readStoredJson } from "../../domain/stored-json.ts";
import { conflict, notFound } from "../../errors.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import { flag, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { hasAllTags, prepareTagChoices, tagFilterJson, tagTable } from "../db/tags.ts";
import type { TagChange, TagChoice, TagFilter, Tags } from "../db/tags.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** Addresses by the name of the link. */
export type ControlLinks = Readonly<Record<string, string>>;

const CONTROL = {
  id: number,
  organization_id: number,
  identifier: string,
  name: string,
  description: orNull(string),
  /** `ControlLinks` as JSON. */
  links_json: string,
  /** Number of the latest version. */
  version: number,
  archived: flag,
  /** The display name of the creator at the time. */
  created_by: string,
  /** Epoch seconds. */
  created_at: number,
};
export type ControlRow = RowOf<typeof CONTROL>;

/** A control in a list; `tags_json` is a JSON object of strings. */
export type ControlListRow = ControlRow & { tags_json: string };

type ControlStatus = "created" | "edited" | "archived" | "unarchived";

const VERSION = {
  version: number,
  status: stringOf<ControlStatus>(),
  name: string,
  description: orNull(string),
  links_json: string,
  /** Epoch seconds. */
  timestamp: number,
  created_by: string,
};
/** A control as it was from `timestamp` until the next version. */
export type ControlVersionRow = RowOf<typeof VERSION>;

type ControlFields = { name: string; description: string | null; links: ControlLinks };

type ControlFilter = {
  /** Part of the name or the identifier, ignoring case; empty matches all. */
  search: string;
  /** Only archived ones, or only active ones. */
  archived: boolean;
  /** All of these. */
  tags: readonly TagFilter[];
};

export type Direction = "asc" | "desc";
type Window = { limit: number; offset: number };
type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const COLUMNS = selectList(CONTROL, "c");
const VERSION_COLUMNS = selectList(VERSION);

/** Names are free text, and SQLite's lower() handles ASCII only; identifiers are ASCII. */
const fold = (text: string): string => text.normalize("NFC").toLowerCase();

// instr, not LIKE, so that `_` and `%` match themselves.
const LISTED = `c.organization_id = @organization AND c.archived = @archived
   AND (instr(c.name_folded, @search) > 0 OR instr(lower(c.identifier), @search) > 0)
   AND ${hasAllTags("control_tags", "control_id", "c.id", "@tags")}`;

type ListParameters = { organization: number; archived: 0 | 1; search: string; tags: string };

export function controlStore(db: Db, { now, newId }: SchemaSources) {
  const byIdentifier = db.prepare<[number, string], ControlRow>(
    `SELECT ${COLUMNS} FROM controls AS c WHERE organization_id = ? AND identifier = ?`,
  );
  const byId = db.prepare<[number], ControlRow>(`SELECT ${COLUMNS} FROM controls AS c WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO controls (public_id, organization_id, identifier, name, name_folded, description, links_json, version,
                           created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`,
  );
  const update = db.prepare(
    `UPDATE controls SET name = ?, name_folded = ?, description = ?, links_json = ?, version = version + 1,
       archived = ?, last_modified_at = ?
     WHERE id = ?`,
  );
  // Copies the control as it is after the change that makes the version.
  const insertVersion = db.prepare(
    `INSERT INTO control_versions (control_id, version, status, name, description, links_json, timestamp, created_by)
     SELECT id, version, ?, name, description, links_json, last_modified_at, ? FROM controls WHERE id = ?`,
  );
  const versionListing = (order: string) =>
    db.prepare<[number, number, number], ControlVersionRow>(
      `SELECT ${VERSION_COLUMNS} FROM control_versions WHERE control_id = ? ORDER BY version ${order} LIMIT ? OFFSET ?`,
    );
  const versions = { asc: versionListing("ASC"), desc: versionListing("DESC") };
  const versionByNumber = db.prepare<[number, number], ControlVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM control_versions WHERE control_id = ? AND version = ?`,
  );
  const listing = (order: string) =>
    db.prepare<[ListParameters & Window], ControlListRow>(
      `SELECT ${COLUMNS},
         (SELECT json_group_object(key, value) FROM control_tags WHERE control_id = c.id) AS tags_json
       FROM controls AS c WHERE ${LISTED} ORDER BY ${order} LIMIT @limit OFFSET @offset`,
    );
  const lists = { asc: listing("c.name ASC, c.id ASC"), desc: listing("c.name DESC, c.id DESC") };
  const counting = db.prepare<[ListParameters], { total: number }>(
    `SELECT count(*) AS total FROM controls AS c WHERE ${LISTED}`,
  );
  const referencingPolicies = db.prepare<[number], { name: string }>(
    `SELECT pol.name FROM policy_version_controls AS pvc
       JOIN policy_versions AS pv ON pv.id = pvc.policy_version_id JOIN policies AS pol ON pol.id = pv.policy_id
     WHERE pvc.control_id = ? AND pv.version = (SELECT max(version) FROM policy_versions WHERE policy_id = pv.policy_id)
     ORDER BY pol.name`,
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

  /** Writes the next version. */
  function writeVersion(
    control: ControlRow,
    fields: Pick<ControlRow, "name" | "description" | "links_json" | "archived">,
    { status, user }: { status: ControlStatus; user: string },
  ): ControlRow {
    const { name, description, links_json, archived } = fields;
    update.run(name, fold(name), description, links_json, archived, now(), control.id);
    insertVersion.run(status, user, control.id);
    return get(control.id);
  }

  /** @returns the control with the next version; unchanged when it is in that state already. */
  function setArchived(control: ControlRow, archived: 0 | 1, user: string): ControlRow {
    if (control.archived === archived) return control;
    const status = archived === 1 ? "archived" : "unarchived";
    return writeVersion(control, { ...control, archived }, { status, user });
  }

  const parameters = (organization: number, { search, archived, tags: wanted }: ControlFilter): ListParameters => ({
    organization,
    archived: archived ? 1 : 0,
    search: fold(search),
    tags: tagFilterJson(wanted),
  });

  return {
    /** The control with that identifier, archived or not; null without one. */
    find,
    /** The control with that identifier, archived or not. @throws AppError not_found with the text of messages 7. */
    require(organization: OrganizationKey, identifier: string): ControlRow {
      const row = find(organization.id, identifier);
      if (!row) throw notFound(`Control '${identifier}' does not exist in organization '${organization.name}'`);
      return row;
    },

    /**
     * Creates a control with its version 1. Call it inside a write. `user`: the display name of the caller.
     * @throws AppError conflict, not retryable, when the identifier was ever used (semantics 7.1).
     */
    create(
      organization: OrganizationKey,
      { identifier, name, description, links }: ControlFields & { identifier: string },
      user: string,
    ): ControlRow {
      if (find(organization.id, identifier))
        throw conflict(
          `A control with identifier '${identifier}' already exists in organization '${organization.name}'`,
        );
      const at = now();
      const { lastInsertRowid } = insert.run(
        newId(),
        organization.id,
        identifier,
        name,
        fold(name),
        description,
        JSON.stringify(links),
        user,
        at,
        at,
      );
      const id = Number(lastInsertRowid);
      insertVersion.run("created", user, id);
      return get(id);
    },

    /**
     * Replaces the fields: writes the next version, or nothing when they are the same. @returns the control afterwards.
     */
    update(control: ControlRow, { name, description, links }: ControlFields, user: string): ControlRow {
      const sameLinks = sortLinks(readStoredJson(control.links_json, hasMembers<ControlLinks>())) === sortLinks(links);
      if (name === control.name && description === control.description && sameLinks) return control;
      const links_json = sameLinks ? control.links_json : JSON.stringify(links);
      const fields = { name, description, links_json, archived: control.archived };
      return writeVersion(control, fields, { status: "edited", user });
    },

    /** Archives an active control: writes the next version. @returns the control afterwards. */
    archive: (control: ControlRow, user: string): ControlRow => setArchived(control, 1, user),
    /** Makes an archived control active again: writes the next version. @returns the control afterwards. */
    unarchive: (control: ControlRow, user: string): ControlRow => setArchived(control, 0, user),

    /** One page of the versions. Their number is that of the latest one. */
    listVersions: (controlId: number, direction: Direction, { limit, offset }: Window): ControlVersionRow[] =>
      versions[direction].all(controlId, limit, offset),
    /** The version with that number; null without one. */
    findVersion: (controlId: number, version: number): ControlVersionRow | null =>
      versionByNumber.get(controlId, version) ?? null,

    /** One page of the controls of an organization, ordered by name. */
    list: (
      organizationId: number,
      filter: ControlFilter,
      { direction, limit, offset }: Window & { direction: Direction },
    ): ControlListRow[] => lists[direction].all({ ...parameters(organizationId, filter), limit, offset }),
    /** How many controls `list` has on all pages. */
    count: (organizationId: number, filter: ControlFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,

    /** Names of the policies whose latest version has a rule for the control, ordered. */
    listReferencingPolicies: (controlId: number): string[] =>
      referencingPolicies.all(controlId).map(({ name }) => name),

    getTags: (controlId: number): Tags => tags.get(controlId),
    /** Sets and removes tags. Tags are not part of versions (semantics 7.1). */
    patchTags(controlId: number, change: TagChange): void {
      tags.patch(controlId, change);
      setModified.run(now(), controlId);
    },
    /** Every distinct tag on a control of the organization, archived ones included. */
    listTagChoices: (organizationId: number): TagChoice[] => choices.all(organizationId),
  };
}

/** Links are a set of pairs: the order in which a client sends them does not matter. */
const sortLinks = (links: ControlLinks): string =>
  JSON.stringify(Object.entries(links).sort(([a], [b]) => (a < b ? -1 : 1)));
