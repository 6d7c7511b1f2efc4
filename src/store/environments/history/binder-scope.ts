/** What an audit binder is about, and the SQL of what belongs to it. Times in epoch seconds, both bounds inclusive. */
export type BinderPeriod = { from: number; to: number };

export const BINDER_KINDS = ["control", "environment", "flow"] as const;
export type BinderKind = (typeof BINDER_KINDS)[number];

/** What a binder is about, by its key. A control has its identifier, too, which decisions name. */
export type BinderSubject =
  | { kind: "control"; id: number; identifier: string }
  | { kind: "environment"; id: number }
  | { kind: "flow"; id: number };

/** The subject in a period; `environmentIds`: where it is looked at. */
export type BinderKey = BinderPeriod & {
  organizationId: number;
  subject: BinderSubject;
  environmentIds: readonly number[];
};

export type BinderParameters = BinderPeriod & {
  organization: number;
  id: number;
  identifier: string;
  environments: string;
};

/**
 * Artifacts that started in the environments: the records of all ordinals, because each is the record in another flow.
 * The index over time has the first ordinals alone.
 */
const STARTED = `SELECT other.artifact_id FROM (
     SELECT DISTINCT dep.environment_id, dep.fingerprint FROM json_each(@environments) wanted
       CROSS JOIN deployments dep ON dep.environment_id = wanted.value AND dep.ordinal = 0
         AND dep.deployed_at >= @from AND dep.deployed_at <= @to) AS found
   CROSS JOIN deployments other ON other.environment_id = found.environment_id
     AND other.fingerprint = found.fingerprint AND other.deployed_at >= @from AND other.deployed_at <= @to`;
const BEGUN = "SELECT t.id FROM trails t WHERE t.flow_id = @id AND t.created_at >= @from AND t.created_at <= @to";
/** The attestations of a binder. The unary plus disables the index of times. */
export const ATTESTED: Record<BinderKind, string> = {
  control: `att.organization_id = @organization AND att.control = @identifier
     AND +att.created_at >= @from AND +att.created_at <= @to`,
  environment: `att.id IN (
       SELECT b.attestation_id FROM attestation_bindings b WHERE b.artifact_id IN (${STARTED})
       UNION SELECT other.id FROM attestations other WHERE other.scope = 'trail' AND other.trail_id IN (
         SELECT a.trail_id FROM artifacts a WHERE a.id IN (${STARTED})))`,
  flow: `att.trail_id IN (${BEGUN})`,
};
export const forEachKind = <T>(make: (kind: BinderKind) => T): Record<BinderKind, T> =>
  Object.fromEntries(BINDER_KINDS.map((kind) => [kind, make(kind)])) as Record<BinderKind, T>;

export const parametersOf = ({ organizationId, subject, environmentIds, from, to }: BinderKey): BinderParameters => ({
  organization: organizationId,
  id: subject.id,
  identifier: subject.kind === "control" ? subject.identifier : "",
  environments: JSON.stringify(environmentIds),
  from,
  to,
});

/** A row that the same transaction found before. @throws Error when it is not there; `what` is its subject */
export function requireRow<Row>(row: Row | undefined, what: string): Row {
  if (row === undefined) throw new Error(`${what} is gone`);
  return row;
}
