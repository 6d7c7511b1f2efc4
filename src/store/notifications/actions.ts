/**
 * Notification actions: rules that send messages to targets when something happens in environments or flows.
 *
 * Invariants: the number of an action is unique in its organization and never reused; an action names active
 * environments or flows only, and is deleted when the last of them is archived (semantics 13.87).
 */
import { DEFAULT_DAILY_TIME } from "../../domain/notification/daily-time.ts";
import type { DailyTime } from "../../domain/notification/daily-time.ts";
import type { StoredTarget } from "../../domain/notification/targets.ts";
import { notFound } from "../../errors.ts";
import type { dailyChangesStore } from "./daily-changes.ts";
import type { notificationTargetStore } from "./notification-targets.ts";
import { flag, number, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** What an action watches. */
export type ActionKind = "env" | "flow";

const ACTION = {
  id: number,
  organization_id: number,
  number: number,
  kind: stringOf<ActionKind>(),
  name: string,
  /** A list of strings, in the order in which they were given. */
  triggers_json: string,
  from_chat: flag,
  created_by: string,
  created_at: number,
  last_modified_at: number,
};
export type ActionRow = RowOf<typeof ACTION>;

export type ActionFields = {
  name: string;
  triggers: readonly string[];
  /** When the message of ON_DAILY_CHANGES is due, 06:00 UTC without it; without that trigger it means nothing. */
  daily?: DailyTime;
  /** Ids of active environments or flows, each once. */
  places: readonly number[];
  targets: readonly StoredTarget[];
  /** Makes the secret of a new WEBHOOK. */
  newSecret: () => string;
};

const COLUMNS = selectList(ACTION, "act");

type Areas = {
  targets: ReturnType<typeof notificationTargetStore>;
  dailyChanges: Pick<ReturnType<typeof dailyChangesStore>, "start" | "stop">;
};

export function actionStore(db: Db, { now }: Pick<SchemaSources, "now">, { targets, dailyChanges }: Areas) {
  const byNumber = db.prepare<[number, number], ActionRow>(
    `SELECT ${COLUMNS} FROM actions act WHERE organization_id = ? AND number = ?`,
  );
  const byName = db.prepare<[number, string], ActionRow>(
    `SELECT ${COLUMNS} FROM actions act WHERE organization_id = ? AND name = ?`,
  );
  const byOrganization = db.prepare<[number], ActionRow>(
    `SELECT ${COLUMNS} FROM actions act WHERE organization_id = ? ORDER BY number`,
  );
  const nextNumber = db.prepare<[number], { last_number: number }>(
    `INSERT INTO action_numbers (organization_id, last_number) VALUES (?, 1)
     ON CONFLICT (organization_id) DO UPDATE SET last_number = last_number + 1 RETURNING last_number`,
  );
  const insert = db.prepare(
    `INSERT INTO actions (organization_id, number, kind, name, triggers_json, from_chat, created_by, created_at,
                          last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE actions SET name = ?, triggers_json = ? WHERE id = ?");
  const setModified = db.prepare("UPDATE actions SET last_modified_at = ? WHERE id = ?");
  const remove = db.prepare("DELETE FROM actions WHERE id = ?");
  const places = {
    env: placeTable(db, { table: "action_environments", column: "environment_id", places: "environments" }),
    flow: placeTable(db, { table: "action_flows", column: "flow_id", places: "flows" }),
  };

  /** Replaces what differs. @returns whether anything did. */
  function apply(row: ActionRow, fields: ActionFields): boolean {
    const { name, triggers, targets: newTargets, newSecret } = fields;
    const triggersJson = JSON.stringify(triggers);
    const isDescriptionChanged = name !== row.name || triggersJson !== row.triggers_json;
    if (isDescriptionChanged) update.run(name, triggersJson, row.id);
    const arePlacesChanged = places[row.kind].replace(row.id, fields.places);
    const isDaily = triggers.includes("ON_DAILY_CHANGES");
    const isTimeChanged = isDaily && dailyChanges.start(row, fields.daily ?? DEFAULT_DAILY_TIME);
    if (!isDaily) dailyChanges.stop(row);
    const owner = { organizationId: row.organization_id, actionId: row.id };
    const areTargetsChanged = targets.replace(owner, newTargets, newSecret);
    return isDescriptionChanged || isTimeChanged || arePlacesChanged || areTargetsChanged;
  }

  function deleteAction(row: ActionRow): void {
    targets.deleteAll({ organizationId: row.organization_id, actionId: row.id });
    remove.run(row.id);
  }

  const find = (organizationId: number, number: number): ActionRow | null =>
    byNumber.get(organizationId, number) ?? null;

  return {
    /** The action with that number; null without one. */
    find,
    /** @param kind null: any. @throws AppError not_found, also for an action of another kind. */
    require(organization: { id: number; name: string }, number: number, kind: ActionKind | null = null): ActionRow {
      const row = find(organization.id, number);
      if (!row || (kind !== null && row.kind !== kind))
        throw notFound(`Action '${number}' does not exist in organization '${organization.name}'`);
      return row;
    },
    /** The action with that name, of any kind; null without one. */
    findByName: (organizationId: number, name: string): ActionRow | null => byName.get(organizationId, name) ?? null,
    /** All actions of an organization, ordered by number. */
    list: (organizationId: number): ActionRow[] => byOrganization.all(organizationId),
    /** Current names of the environments or flows, in the order given. */
    listPlaces: ({ id, kind }: ActionRow): string[] => places[kind].names(id),
    listTargets: ({ id, organization_id }: ActionRow) =>
      targets.list({ organizationId: organization_id, actionId: id }),

    /** Creates an action; the name must be free. @param fromChat whether the chat app created it. */
    create(
      organizationId: number,
      fields: ActionFields & { kind: ActionKind },
      { user, fromChat }: { user: string; fromChat: boolean },
    ): ActionRow {
      const at = now();
      const number = (nextNumber.get(organizationId) as { last_number: number }).last_number;
      insert.run(
        organizationId,
        number,
        fields.kind,
        fields.name,
        JSON.stringify(fields.triggers),
        Number(fromChat),
        user,
        at,
        at,
      );
      const row = find(organizationId, number) as ActionRow;
      apply(row, fields);
      return row;
    },

    /**
     * Replaces everything but the number and the kind; the name must be free. Writes nothing when nothing differs.
     * @returns whether it changed.
     */
    update(row: ActionRow, fields: ActionFields): boolean {
      if (!apply(row, fields)) return false;
      setModified.run(now(), row.id);
      return true;
    },

    /** Deletes an action. Its messages that still wait are not sent any more. */
    delete: deleteAction,

    /**
     * Removes an archived environment or flow from its actions; those that watch nothing else are deleted.
     * @returns the numbers of the actions.
     */
    removeArchivedPlace(kind: ActionKind, placeId: number): { changed: number[]; deleted: number[] } {
      const result = { changed: [] as number[], deleted: [] as number[] };
      for (const row of places[kind].actions(placeId)) {
        places[kind].remove(row.id, placeId);
        if (places[kind].names(row.id).length > 0) {
          setModified.run(now(), row.id);
          result.changed.push(row.number);
        } else {
          deleteAction(row);
          result.deleted.push(row.number);
        }
      }
      return result;
    },
  };
}

type PlaceTable = { table: string; column: string; places: string };

/** The environments or flows of actions. The identifiers are those of schema.sql. */
function placeTable(db: Db, { table, column, places }: PlaceTable) {
  const idsOf = db.prepare<[number], { id: number }>(
    `SELECT ${column} AS id FROM ${table} WHERE action_id = ? ORDER BY position`,
  );
  const namesOf = db.prepare<[number], { name: string }>(
    `SELECT place.name FROM ${table} watched JOIN ${places} place ON place.id = watched.${column}
     WHERE watched.action_id = ? ORDER BY watched.position`,
  );
  const actionsOf = db.prepare<[number], ActionRow>(
    `SELECT ${COLUMNS} FROM ${table} watched JOIN actions act ON act.id = watched.action_id
     WHERE watched.${column} = ? ORDER BY act.number`,
  );
  const clear = db.prepare(`DELETE FROM ${table} WHERE action_id = ?`);
  const insert = db.prepare(`INSERT INTO ${table} (action_id, ${column}, position) VALUES (?, ?, ?)`);
  const remove = db.prepare(`DELETE FROM ${table} WHERE action_id = ? AND ${column} = ?`);
  return {
    names: (actionId: number): string[] => namesOf.all(actionId).map(({ name }) => name),
    /** The actions that watch an environment or flow, ordered by number. */
    actions: (placeId: number): ActionRow[] => actionsOf.all(placeId),
    remove: (actionId: number, placeId: number): void => void remove.run(actionId, placeId),
    /** @returns whether they or their order changed. */
    replace(actionId: number, ids: readonly number[]): boolean {
      const before = idsOf.all(actionId);
      if (before.length === ids.length && before.every(({ id }, position) => id === ids[position])) return false;
      clear.run(actionId);
      for (const [position, id] of ids.entries()) insert.run(actionId, id, position);
      return true;
    },
  };
}
