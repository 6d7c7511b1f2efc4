/** The entries of the audit log that tell what changed in an organization: most tell of reports. */

const KEY_EVENTS = ["api_key.created", "api_key.rotated", "api_key.revoked", "api_key.lapsed"] as const;
/** The history of memberships has what else happens to service accounts. */
export const ACCOUNT_EVENTS = ["service_account.created", "service_account.deleted"] as const;
const RECORD_EVENTS = [
  "flow.applied",
  "flow.archived",
  "flow.renamed",
  "environment.put",
  "environment.archived",
  "environment.renamed",
  "environment.joined",
  "tags.changed",
  "control.created",
  "control.edited",
  "control.archived",
  "control.unarchived",
] as const;
/** Of which each says a name before and after. */
export const NAME_EVENTS = [
  "flow.archived",
  "flow.renamed",
  "environment.archived",
  "environment.renamed",
] as const satisfies readonly (typeof RECORD_EVENTS)[number][];
/** Of attestations, those that replaced the verdict of another one, by the text of the entry. */
export const OVERRIDE_EVENT = "attestation.reported";
/** What happened to flows, environments, controls and attestations. */
export type RecordEvent = (typeof RECORD_EVENTS)[number] | typeof OVERRIDE_EVENT;

/**
 * The condition of the index audit_log_changes, term by term: with any other condition SQLite refuses to use it. Every
 * insert into the log evaluates it, and a list in parentheses would take ten times as long.
 */
export const TELLS_OF_CHANGE = [
  `event = '${OVERRIDE_EVENT}' AND instr(detail_json, '"attestation_type":"override"') > 0`,
  ...[...KEY_EVENTS, ...ACCOUNT_EVENTS, ...RECORD_EVENTS].map((event) => `event = '${event}'`),
].join(" OR ");
