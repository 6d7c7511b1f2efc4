/**
 * Actions: rules about whom to tell of what. Numbers count up in each organization and are never given twice, whatever
 * was deleted. An action names active environments or flows only; when its last one is archived, it goes with it
 * (decision 87).
 */
import type { KeptTarget } from "../../domain/notification/targets.ts";
import { notFound } from "../../errors.ts";
import type { notificationTargetStore } from "./notification-targets.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** What an action is about. */
export type ActionKind = "env" | "flow";

export type ActionRow = {
  id: number;
  organization_id: number;
  number: number;
  kind: ActionKind;
  name: string;
  /** A list of texts, in the order in which they were given. */
  triggers_json: string;
  from_chat: 0 | 1;
  created_by: string;
  created_at: number;
  last_modified_at: number;
};

export type ActionFields = {
  name: string;
  triggers: readonly string[];
  /** Keys of active environments or flows, each once. */
  places: readonly number[];
  targets: readonly KeptTarget[];
  /** Makes the secret of a WEBHOOK that is new. */
  newSecret: () => string;
};

const COLUMNS = [
  "id",
  "organization_id",
  "number",
  "kind",
  "name",
  "triggers_json",
  "from_chat",
  "created_by",
  "created_at",
  "last_modified_at",
]
  .map((name) => `action.${name}`)
  .join(", ");

export function actionStore(
  db: Db,
  { now }: Pick<SchemaSources, "now">,
  targets: ReturnType<typeof notificationTargetStore>,
) {
  const byNumber = db.prepare<[number, number], ActionRow>(
    `SELECT ${COLUMNS} FROM actions action WHERE organization_id = ? AND number = ?`,
  );
  const byName = db.prepare<[number, string], ActionRow>(
    `SELECT ${COLUMNS} FROM actions action WHERE organization_id = ? AND name = ?`,
  );
  const all = db.prepare<[number], ActionRow>(
    `SELECT ${COLUMNS} FROM actions action WHERE organization_id = ? ORDER BY number`,
  );
  const nextNumber = db.prepare<[number], { last_number: number }>(
    `INSERT INTO action_numbers (organization_id, last_number) VALUES (?, 1)
     ON CONFLICT (organization_id) DO UPDATE SET last_number = last_number + 1 RETURNING last_number`,
  );
  const insert = db.prepare(
    `INSERT INTO actions (organization_id, number, kind, name, triggers_json, from_chat, created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE actions SET name = ?, triggers_json = ? WHERE id = ?");
  const setModified = db.prepare("UPDATE actions SET last_modified_at = ? WHERE id = ?");
  const remove = db.prepare("DELETE FROM actions WHERE id = ?");
  const actionsAt = {
    env: db.prepare<[number], ActionRow>(
      `SELECT ${COLUMNS} FROM action_environments place JOIN actions action ON action.id = place.action_id WHERE place.environment_id = ? ORDER BY action.number`,
    ),
    flow: db.prepare<[number], ActionRow>(
      `SELECT ${COLUMNS} FROM action_flows place JOIN actions action ON action.id = place.action_id WHERE place.flow_id = ? ORDER BY action.number`,
    ),
  };
  const placesOf = {
    env: placeTable(db, "action_environments", "environment_id", "environments"),
    flow: placeTable(db, "action_flows", "flow_id", "flows"),
  };

  /** Replaces what differs. @returns whether anything did. */
  function apply(row: ActionRow, { name, triggers, places, targets: wanted, newSecret }: ActionFields): boolean {
    const triggersJson = JSON.stringify(triggers);
    const described = name !== row.name || triggersJson !== row.triggers_json;
    if (described) update.run(name, triggersJson, row.id);
    const placed = placesOf[row.kind].replace(row.id, places);
    const sent = targets.replace({ organizationId: row.organization_id, actionId: row.id }, wanted, newSecret);
    return described || placed || sent;
  }

  function drop(row: ActionRow): void {
    targets.deleteAll({ organizationId: row.organization_id, actionId: row.id });
    remove.run(row.id);
  }

  const get = (organizationId: number, number: number): ActionRow | null =>
    byNumber.get(organizationId, number) ?? null;

  return {
    find: get,
    /** @param kind null: any. @throws AppError not_found, also for an action of another kind. */
    require(organization: { id: number; name: string }, number: number, kind: ActionKind | null = null): ActionRow {
      const row = get(organization.id, number);
      if (!row || (kind !== null && row.kind !== kind))
        throw notFound(`Action '${number}' does not exist in organization '${organization.name}'`);
      return row;
    },
    /** The action that has a name, whatever its kind. */
    findByName: (organizationId: number, name: string): ActionRow | null => byName.get(organizationId, name) ?? null,
    /** All of an organization, by number. */
    list: (organizationId: number): ActionRow[] => all.all(organizationId),
    /** Present names of its environments or flows, in the order given. */
    listPlaces: ({ id, kind }: ActionRow): string[] => placesOf[kind].names(id),
    listTargets: ({ id, organization_id }: ActionRow) =>
      targets.list({ organizationId: organization_id, actionId: id }),

    /** Creates an action; none may have the name. @param fromChat whether the chat's app made it. */
    create(
      organizationId: number,
      kind: ActionKind,
      fields: ActionFields,
      { user, fromChat }: { user: string; fromChat: boolean },
    ): ActionRow {
      const at = now();
      const number = (nextNumber.get(organizationId) as { last_number: number }).last_number;
      insert.run(
        organizationId,
        number,
        kind,
        fields.name,
        JSON.stringify(fields.triggers),
        Number(fromChat),
        user,
        at,
        at,
      );
      const row = get(organizationId, number) as ActionRow;
      apply(row, fields);
      return row;
    },

    /**
     * Replaces an action but for its number and kind; no other one may have the name. The same as before: nothing is
     * written. @returns whether it changed.
     */
    update(row: ActionRow, fields: ActionFields): boolean {
      if (!apply(row, fields)) return false;
      setModified.run(now(), row.id);
      return true;
    },

    /** Deletes an action. Messages that wait to be sent for it are not sent any more. */
    delete: drop,

    /**
     * An environment or flow is archived: actions that name others too go on without it, the others end.
     * @returns their numbers.
     */
    removeArchivedPlace(kind: ActionKind, placeId: number): { changed: number[]; deleted: number[] } {
      const result = { changed: [] as number[], deleted: [] as number[] };
      for (const row of actionsAt[kind].all(placeId)) {
        placesOf[kind].leave(row.id, placeId);
        if (placesOf[kind].names(row.id).length > 0) {
          setModified.run(now(), row.id);
          result.changed.push(row.number);
        } else {
          drop(row);
          result.deleted.push(row.number);
        }
      }
      return result;
    },
  };
}

/** Environments or flows of actions; the names are those of schema.sql. */
function placeTable(db: Db, table: string, column: string, named: string) {
  const idsOf = db.prepare<[number], { id: number }>(
    `SELECT ${column} AS id FROM ${table} WHERE action_id = ? ORDER BY position`,
  );
  const namesOf = db.prepare<[number], { name: string }>(
    `SELECT named.name FROM ${table} place JOIN ${named} named ON named.id = place.${column} WHERE place.action_id = ? ORDER BY place.position`,
  );
  const clear = db.prepare(`DELETE FROM ${table} WHERE action_id = ?`);
  const put = db.prepare(`INSERT INTO ${table} (action_id, ${column}, position) VALUES (?, ?, ?)`);
  const leave = db.prepare(`DELETE FROM ${table} WHERE action_id = ? AND ${column} = ?`);
  return {
    names: (actionId: number): string[] => namesOf.all(actionId).map(({ name }) => name),
    leave: (actionId: number, id: number): void => void leave.run(actionId, id),
    /** @returns whether they, or their order, changed. */
    replace(actionId: number, ids: readonly number[]): boolean {
      const before = idsOf.all(actionId);
      if (before.length === ids.length && before.every(({ id }, place) => id === ids[place])) return false;
      clear.run(actionId);
      ids.forEach((id, place) => put.run(actionId, id, place));
      return true;
    },
  };
}
