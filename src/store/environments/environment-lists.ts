/** Environments as lists show them: with their tags, policies and members, in one statement. */
import type { EnvironmentType } from "./environments.ts";
import { hasAllTags, tagFilterJson } from "../db/tags.ts";
import type { TagFilter } from "../db/tags.ts";
import type { DbReader } from "../db/types.ts";
import type { ListOptions } from "../db/types.ts";

export type EnvironmentView = {
  id: number;
  name: string;
  type: EnvironmentType;
  description: string;
  include_scaling: 0 | 1;
  require_provenance: 0 | 1;
  /** Epoch seconds; for a logical environment the latest among its members, its own without members. */
  last_modified_at: number;
  /** Epoch seconds; null before the first report, and for a logical environment. */
  last_reported_at: number | null;
  /** Epoch seconds of the latest snapshot; for a logical environment the latest among its members. */
  last_changed_at: number | null;
  /** Verdict of the latest snapshot; meaningless for a logical environment, whose state follows from its members. */
  state: 0 | 1 | null;
  /** A JSON object of strings. */
  tags_json: string;
  /** Names of the attached policies, in their order. */
  policies_json: string;
  /** `[name, state]` of each member in their order; null for a physical environment. */
  members_json: string | null;
};

type EnvironmentFilter = {
  /** Part of the name, ignoring case; empty matches all. */
  search: string;
  /** Any of these; null: any type. */
  types: readonly EnvironmentType[] | null;
  /** All of these. */
  tags: readonly TagFilter[];
  /** null: any state. */
  state: EnvironmentState | null;
};
type EnvironmentState = "COMPLIANT" | "NON-COMPLIANT" | "UNKNOWN";
type EnvironmentOrder = { by: "state" | "name" | "last_modified_at" | "last_changed_at"; direction: "asc" | "desc" };

const MEMBERS = `environment_members AS em JOIN environments AS member ON member.id = em.member_id
       WHERE em.logical_id = env.id`;

/** The verdict that is shown; that of a logical environment follows from its members (semantics 6.3). */
const STATE = `CASE WHEN env.type <> 'logical' THEN env.state
     WHEN EXISTS (SELECT 1 FROM ${MEMBERS} AND member.state = 0) THEN 0
     WHEN EXISTS (SELECT 1 FROM ${MEMBERS} AND member.state IS NULL) THEN NULL
     WHEN EXISTS (SELECT 1 FROM ${MEMBERS}) THEN 1 END`;
const STATE_NAME = `CASE ${STATE} WHEN 0 THEN 'NON-COMPLIANT' WHEN 1 THEN 'COMPLIANT' ELSE 'UNKNOWN' END`;

const VIEW = `SELECT env.id, env.name, env.type, env.description, env.include_scaling, env.require_provenance,
     iif(env.type = 'logical',
       coalesce((SELECT max(member.last_modified_at) FROM ${MEMBERS}), env.last_modified_at),
       env.last_modified_at) AS last_modified_at,
     iif(env.type = 'logical', NULL, env.last_reported_at) AS last_reported_at,
     iif(env.type = 'logical',
       (SELECT max(member.last_changed_at) FROM ${MEMBERS}), env.last_changed_at) AS last_changed_at,
     env.state,
     (SELECT json_group_object(key, value) FROM environment_tags WHERE environment_id = env.id) AS tags_json,
     (SELECT json_group_array(pol.name ORDER BY ep.position)
      FROM environment_policies AS ep JOIN policies AS pol ON pol.id = ep.policy_id
      WHERE ep.environment_id = env.id) AS policies_json,
     iif(env.type = 'logical',
       (SELECT json_group_array(json_array(member.name, member.state) ORDER BY em.position) FROM ${MEMBERS}),
       NULL) AS members_json
   FROM environments AS env`;

// instr, not LIKE, so that `_` and `%` match themselves. lower() handles ASCII only, and names contain nothing else.
const LISTED = `env.organization_id = @organization AND env.archived_at IS NULL
   AND instr(lower(env.name), lower(@search)) > 0
   AND (@types IS NULL OR env.type IN (SELECT value FROM json_each(@types)))
   AND ${hasAllTags("environment_tags", "environment_id", "env.id", "@tags")}`;

/**
 * Orders by the times that are shown, which no index has: the environments of one organization are sorted. Environments
 * without a snapshot count as the oldest. The name decides between equals.
 */
const ORDERS = {
  // Those that fail come first, those without a verdict last.
  state: {
    asc: `${STATE} IS NOT 0, ${STATE} IS NULL, env.name ASC`,
    desc: `${STATE} IS NOT NULL, ${STATE} IS NOT 1, env.name ASC`,
  },
  name: { asc: "env.name ASC", desc: "env.name DESC" },
  last_modified_at: { asc: "last_modified_at ASC, env.name ASC", desc: "last_modified_at DESC, env.name ASC" },
  last_changed_at: { asc: "last_changed_at ASC, env.name ASC", desc: "last_changed_at DESC, env.name ASC" },
} as const;

type ListParameters = {
  organization: number;
  search: string;
  types: string | null;
  tags: string;
  state: string | null;
};

export function environmentListStore(db: DbReader) {
  const byId = db.prepare<[number], EnvironmentView>(`${VIEW} WHERE env.id = ?`);
  const listing = (order: string) =>
    db.prepare<[ListParameters & { limit: number; offset: number }], EnvironmentView>(
      `${VIEW} WHERE ${LISTED} AND (@state IS NULL OR ${STATE_NAME} = @state)
       ORDER BY ${order} LIMIT @limit OFFSET @offset`,
    );
  const both = ({ asc, desc }: { asc: string; desc: string }) => ({ asc: listing(asc), desc: listing(desc) });
  const lists = {
    state: both(ORDERS.state),
    name: both(ORDERS.name),
    last_modified_at: both(ORDERS.last_modified_at),
    last_changed_at: both(ORDERS.last_changed_at),
  };
  const counting = db.prepare<[ListParameters], { state: EnvironmentState; total: number }>(
    `SELECT ${STATE_NAME} AS state, count(*) AS total FROM environments AS env WHERE ${LISTED} GROUP BY 1`,
  );

  const parameters = (organization: number, { search, types, tags, state }: EnvironmentFilter): ListParameters => ({
    organization,
    search,
    types: types === null ? null : JSON.stringify(types),
    tags: tagFilterJson(tags),
    state,
  });

  return {
    /** One environment, active or archived; it must exist. */
    get(id: number): EnvironmentView {
      const row = byId.get(id);
      if (!row) throw new Error(`environment ${id} is gone`);
      return row;
    },

    /** Active environments of an organization; all of them without a window. */
    list(
      organizationId: number,
      filter: EnvironmentFilter,
      { order: { by, direction }, window }: ListOptions<EnvironmentOrder>,
    ): EnvironmentView[] {
      const { limit, offset } = window ?? { limit: -1, offset: 0 };
      return lists[by][direction].all({ ...parameters(organizationId, filter), limit, offset });
    },

    /** How many environments match in each state, whatever state the filter names. */
    countStates(organizationId: number, filter: EnvironmentFilter): Record<EnvironmentState, number> {
      const found = counting.all(parameters(organizationId, filter)).map(({ state, total }) => [state, total] as const);
      return { "NON-COMPLIANT": 0, COMPLIANT: 0, UNKNOWN: 0, ...Object.fromEntries(found) };
    },
  };
}
