/**
 * The event of an attestation in the history of its trail. Stored is what the record of the attestation does not have;
 * the rest is composed from the record, which never changes.
 */

/** A repository as the events of a trail show it. */
type EventRepo = { name: string; url: string; id: string; description: string; provider: string | null };
type ReportedRepo = {
  name: string;
  url: string;
  id?: string | null | undefined;
  description?: string | null | undefined;
  provider?: string | null | undefined;
};

/** A reported repository as events show it. */
export const describeEventRepo = ({ name, url, id, description, provider }: ReportedRepo): EventRepo => ({
  name,
  url,
  id: id ?? "",
  description: description ?? "",
  provider: provider ?? null,
});

/**
 * What is stored of an event: its artifact at the time of the report, and whether the name had been reported before
 * (true, or null for the first report; semantics 3.5). `git_commit_info` null: the report had no commit, even if the
 * record has one.
 */
export type AttestationEventDetail = {
  target_artifact?: string;
  artifact_id?: string;
  artifact_name?: string;
  is_reattestation: true | null;
  git_commit_info?: null;
};

/** The columns of a record that its event shows. */
export type EventRecord = {
  public_id: string;
  name: string;
  type: string;
  is_compliant: 0 | 1;
  artifact_fingerprint: string | null;
  git_commit_info_json: string | null;
  repo_info_json: string | null;
};

/**
 * The members of an event as JSON text, in the order in which events have always had them.
 * @throws SyntaxError for a damaged record
 */
export function composeAttestationEvent(record: EventRecord, detail: AttestationEventDetail): string {
  const { target_artifact, is_reattestation, git_commit_info, ...artifact } = detail;
  const repo = record.repo_info_json === null ? null : (JSON.parse(record.repo_info_json) as ReportedRepo);
  const hasCommit = git_commit_info === undefined && record.git_commit_info_json !== null;
  return JSON.stringify({
    attestation_type: record.type,
    attestation_id: record.public_id,
    is_compliant: record.is_compliant === 1,
    // The attestation's own name, which is its name in the template (wire-contract 4).
    template_reference_name: record.name,
    ...(target_artifact === undefined ? {} : { target_artifact }),
    ...(record.artifact_fingerprint === null ? {} : { artifact_fingerprint: record.artifact_fingerprint }),
    ...artifact,
    is_reattestation,
    git_commit_info: hasCommit ? (JSON.parse(record.git_commit_info_json ?? "null") as unknown) : null,
    repo_info: repo && describeEventRepo(repo),
  });
}
