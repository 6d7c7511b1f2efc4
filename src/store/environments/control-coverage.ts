/** Coverage of controls: the environments in which an attached policy has a rule for a control. Read-only. */
import type { EnvironmentType } from "./environments.ts";
import type { DbReader } from "../db/types.ts";

type CoverageRow = {
  name: string;
  type: EnvironmentType;
  covered: 0 | 1;
  /** Names of the policies that cover it, in the order of attachment, as a JSON list. */
  policies_json: string;
};

type CoverageFilter = {
  /** Part of the name, ignoring case; empty matches all. */
  search: string;
  /** Only covered ones, or only others; null: both. */
  covered: boolean | null;
};

const COVERING = `environment_policies AS ep
     JOIN policy_versions AS pv ON pv.policy_id = ep.policy_id
     JOIN policy_version_controls AS pvc ON pvc.policy_version_id = pv.id AND pvc.control_id = @control
     JOIN policies AS pol ON pol.id = ep.policy_id
   WHERE ep.environment_id = env.id
     AND pv.version = (SELECT max(version) FROM policy_versions WHERE policy_id = ep.policy_id)`;
const COVERED = `EXISTS (SELECT 1 FROM ${COVERING})`;
const COUNTED = "env.organization_id = @organization AND env.archived_at IS NULL AND env.type <> 'logical'";
// instr, not LIKE, so that `_` and `%` match themselves. lower() handles ASCII only, and names contain nothing else.
const LISTED = `${COUNTED} AND instr(lower(env.name), lower(@search)) > 0
   AND (@covered IS NULL OR ${COVERED} = @covered)`;

type Key = { organization: number; control: number };
/** A control of an organization, by their ids. */
type ControlKey = { organizationId: number; controlId: number };
type ListParameters = Key & { search: string; covered: 0 | 1 | null };

export function controlCoverageStore(db: DbReader) {
  const summary = db.prepare<[Key], { total: number; covered: number }>(
    `SELECT count(*) AS total, coalesce(sum(${COVERED}), 0) AS covered FROM environments AS env WHERE ${COUNTED}`,
  );
  const rows = db.prepare<[ListParameters & { limit: number; offset: number }], CoverageRow>(
    `SELECT env.name, env.type, ${COVERED} AS covered,
       (SELECT json_group_array(pol.name ORDER BY ep.position, ep.policy_id) FROM ${COVERING}) AS policies_json
     FROM environments AS env WHERE ${LISTED} ORDER BY env.name LIMIT @limit OFFSET @offset`,
  );
  const counting = db.prepare<[ListParameters], { total: number }>(
    `SELECT count(*) AS total FROM environments AS env WHERE ${LISTED}`,
  );
  const parameters = (key: ControlKey, { search, covered }: CoverageFilter): ListParameters => ({
    organization: key.organizationId,
    control: key.controlId,
    search,
    covered: covered === null ? null : covered ? 1 : 0,
  });

  return {
    /** How many environments there are, and how many are covered; independent of any filter. */
    summarize: ({ organizationId, controlId }: ControlKey): { total: number; covered: number } =>
      summary.get({ organization: organizationId, control: controlId }) ?? { total: 0, covered: 0 },
    /** One page of environments, ordered by name. */
    list: (
      key: ControlKey,
      filter: CoverageFilter,
      { limit, offset }: { limit: number; offset: number },
    ): CoverageRow[] => rows.all({ ...parameters(key, filter), limit, offset }),
    /** How many environments `list` has on all pages. */
    count: (key: ControlKey, filter: CoverageFilter): number => counting.get(parameters(key, filter))?.total ?? 0,
  };
}
