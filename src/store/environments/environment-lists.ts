/** Environments as lists show them: with their tags, policies and members, in one statement. */
import type { EnvironmentType } from "./environments.ts";
import { hasAllTags, tagFilterJson } from "../db/tags.ts";
import type { TagFilter } from "../db/tags.ts";
import type { Db } from "../db/types.ts";
import type { ListOptions } from "../db/types.ts";

export type EnvironmentView = {
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
  /** `[name, state]` of each member, in their order; null for a physical environment. */
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
};
type EnvironmentOrder = { by: "name" | "last_modified_at" | "last_changed_at"; direction: "asc" | "desc" };

const MEMBERS = `environment_members AS em JOIN environments AS member ON member.id = em.member_id
       WHERE em.logical_id = env.id`;

const VIEW = `SELECT env.name, env.type, env.description, env.include_scaling, env.require_provenance,
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
  name: { asc: "env.name ASC", desc: "env.name DESC" },
  last_modified_at: { asc: "last_modified_at ASC, env.name ASC", desc: "last_modified_at DESC, env.name ASC" },
  last_changed_at: { asc: "last_changed_at ASC, env.name ASC", desc: "last_changed_at DESC, env.name ASC" },
} as const;

type ListParameters = { organization: number; search: string; types: string | null; tags: string };

export function environmentListStore(db: Db) {
  const byId = db.prepare<[number], EnvironmentView>(`${VIEW} WHERE env.id = ?`);
  const listing = (order: string) =>
    db.prepare<[ListParameters & { limit: number; offset: number }], EnvironmentView>(
      `${VIEW} WHERE ${LISTED} ORDER BY ${order} LIMIT @limit OFFSET @offset`,
    );
  const both = ({ asc, desc }: { asc: string; desc: string }) => ({ asc: listing(asc), desc: listing(desc) });
  const lists = {
    name: both(ORDERS.name),
    last_modified_at: both(ORDERS.last_modified_at),
    last_changed_at: both(ORDERS.last_changed_at),
  };
  const counting = db.prepare<[ListParameters], { total: number }>(
    `SELECT count(*) AS total FROM environments AS env WHERE ${LISTED}`,
  );

  const parameters = (organization: number, { search, types, tags }: EnvironmentFilter): ListParameters => ({
    organization,
    search,
    types: types === null ? null : JSON.stringify(types),
    tags: tagFilterJson(tags),
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

    /** How many environments match. */
    count: (organizationId: number, filter: EnvironmentFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,
  };
}
