import type { EnvironmentType } from "../environments/environments.ts";
import type { Db } from "../db/types.ts";

export type CoverageRow = {
  name: string;
  type: EnvironmentType;
  covered: 0 | 1;
  /** Names of the policies that cover it in the order of attaching, as a JSON list. */
  policies_json: string;
};

export type CoverageFilter = {
  /** A part of the name in any case; empty: every environment. */
  search: string;
  /** Only covered ones, or only others; null: both. */
  covered: boolean | null;
};

const COVERING = `environment_policies AS attachment
     JOIN policy_versions AS version ON version.policy_id = attachment.policy_id
     JOIN policy_version_controls AS reference ON reference.policy_version_id = version.id AND reference.control_id = @control
     JOIN policies AS policy ON policy.id = attachment.policy_id
   WHERE attachment.environment_id = environment.id
     AND version.version = (SELECT max(version) FROM policy_versions WHERE policy_id = attachment.policy_id)`;
const COVERED = `EXISTS (SELECT 1 FROM ${COVERING})`;
const COUNTED =
  "environment.organization_id = @organization AND environment.archived_at IS NULL AND environment.type <> 'logical'";
// instr, not LIKE: the characters `_` and `%` mean themselves. lower() knows ASCII only, which is all that names hold.
const LISTED = `${COUNTED} AND instr(lower(environment.name), lower(@search)) > 0 AND (@covered IS NULL OR ${COVERED} = @covered)`;

type Key = { organization: number; control: number };
type ListParameters = Key & { search: string; covered: 0 | 1 | null };

export function controlCoverageStore(db: Db) {
  const summary = db.prepare<[Key], { total: number; covered: number }>(
    `SELECT count(*) AS total, coalesce(sum(${COVERED}), 0) AS covered FROM environments AS environment WHERE ${COUNTED}`,
  );
  const rows = db.prepare<[ListParameters & { limit: number; offset: number }], CoverageRow>(
    `SELECT environment.name, environment.type, ${COVERED} AS covered,
       (SELECT json_group_array(policy.name ORDER BY attachment.position, attachment.policy_id) FROM ${COVERING}) AS policies_json
     FROM environments AS environment WHERE ${LISTED} ORDER BY environment.name LIMIT @limit OFFSET @offset`,
  );
  const counting = db.prepare<[ListParameters], { total: number }>(
    `SELECT count(*) AS total FROM environments AS environment WHERE ${LISTED}`,
  );
  const parameters = (organization: number, control: number, { search, covered }: CoverageFilter): ListParameters => ({
    organization,
    control,
    search,
    covered: covered === null ? null : covered ? 1 : 0,
  });

  return {
    /** Of all environments, whatever a filter shows: how many there are, and how many are covered. */
    summarize: (organization: number, control: number): { total: number; covered: number } =>
      summary.get({ organization, control }) ?? { total: 0, covered: 0 },
    /** Environments by name. */
    list: (
      organization: number,
      control: number,
      filter: CoverageFilter,
      { limit, offset }: { limit: number; offset: number },
    ): CoverageRow[] => rows.all({ ...parameters(organization, control, filter), limit, offset }),
    /** How many environments `list` would give in all. */
    count: (organization: number, control: number, filter: CoverageFilter): number =>
      counting.get(parameters(organization, control, filter))?.total ?? 0,
  };
}
