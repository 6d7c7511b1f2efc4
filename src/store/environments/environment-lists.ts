import type { EnvironmentType } from "./environments.ts";
import { hasAllTags, tagFilterJson } from "../db/tags.ts";
import type { TagFilter } from "../db/tags.ts";
import type { Db } from "../db/types.ts";

export type EnvironmentView = {
  name: string;
  type: EnvironmentType;
  description: string;
  include_scaling: 0 | 1;
  require_provenance: 0 | 1;
  /** Epoch seconds; of a logical environment the newest among its members, its own without members. */
  last_modified_at: number;
  /** Epoch seconds; null before the first report, and of a logical environment. */
  last_reported_at: number | null;
  /** Epoch seconds of the latest snapshot; of a logical environment the newest among its members. */
  last_changed_at: number | null;
  /** Verdict of the latest snapshot; says nothing of a logical environment, whose state follows from its members. */
  state: 0 | 1 | null;
  /** An object of texts. */
  tags_json: string;
  /** Names of the attached policies in their order. */
  policies_json: string;
  /** `[name, state]` of each member in their order; null for a physical environment. */
  members_json: string | null;
};

export type EnvironmentFilter = {
  /** A part of the name in any case; empty: every name. */
  search: string;
  /** Any may match; null: every type. */
  types: readonly EnvironmentType[] | null;
  /** All must match. */
  tags: readonly TagFilter[];
};
export type EnvironmentOrder = { by: "name" | "last_modified_at" | "last_changed_at"; direction: "asc" | "desc" };

const MEMBERS = `environment_members AS link JOIN environments AS member ON member.id = link.member_id WHERE link.logical_id = environment.id`;

const VIEW = `SELECT environment.name, environment.type, environment.description, environment.include_scaling, environment.require_provenance,
     iif(environment.type = 'logical',
       coalesce((SELECT max(member.last_modified_at) FROM ${MEMBERS}), environment.last_modified_at), environment.last_modified_at) AS last_modified_at,
     iif(environment.type = 'logical', NULL, environment.last_reported_at) AS last_reported_at,
     iif(environment.type = 'logical', (SELECT max(member.last_changed_at) FROM ${MEMBERS}), environment.last_changed_at) AS last_changed_at,
     environment.state,
     (SELECT json_group_object(key, value) FROM environment_tags WHERE environment_id = environment.id) AS tags_json,
     (SELECT json_group_array(policy.name ORDER BY attachment.position)
      FROM environment_policies AS attachment JOIN policies AS policy ON policy.id = attachment.policy_id
      WHERE attachment.environment_id = environment.id) AS policies_json,
     iif(environment.type = 'logical',
       (SELECT json_group_array(json_array(member.name, member.state) ORDER BY link.position) FROM ${MEMBERS}), NULL) AS members_json
   FROM environments AS environment`;

// instr, not LIKE: the characters `_` and `%` mean themselves. lower() knows ASCII only, which is all that names hold.
const LISTED = `environment.organization_id = @organization AND environment.archived_at IS NULL
   AND instr(lower(environment.name), lower(@search)) > 0
   AND (@types IS NULL OR environment.type IN (SELECT value FROM json_each(@types)))
   AND ${hasAllTags("environment_tags", "environment_id", "environment.id", "@tags")}`;

/**
 * Times are those that are shown, which no index has: the environments of one organization are sorted. Environments
 * without a snapshot count as the oldest. The name decides between equals.
 */
const ORDERS = {
  name: { asc: "environment.name ASC", desc: "environment.name DESC" },
  last_modified_at: {
    asc: "last_modified_at ASC, environment.name ASC",
    desc: "last_modified_at DESC, environment.name ASC",
  },
  last_changed_at: {
    asc: "last_changed_at ASC, environment.name ASC",
    desc: "last_changed_at DESC, environment.name ASC",
  },
} as const;

type ListParameters = { organization: number; search: string; types: string | null; tags: string };

export function environmentListStore(db: Db) {
  const byId = db.prepare<[number], EnvironmentView>(`${VIEW} WHERE environment.id = ?`);
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
    `SELECT count(*) AS total FROM environments AS environment WHERE ${LISTED}`,
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

    /** Active environments of an organization. `window` null: all of them. */
    list(
      organizationId: number,
      filter: EnvironmentFilter,
      { by, direction }: EnvironmentOrder,
      window: { limit: number; offset: number } | null,
    ): EnvironmentView[] {
      const { limit, offset } = window ?? { limit: -1, offset: 0 };
      return lists[by][direction].all({ ...parameters(organizationId, filter), limit, offset });
    },

    /** How many environments `list` would give without a window. */
    count: (organizationId: number, filter: EnvironmentFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,
  };
}
