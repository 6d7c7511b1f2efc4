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

/** A longer text of a record is not parsed: the query that reads it verifies that it is JSON. */
const MAX_PARSED_CHARS = 65_536;

/** The columns of a record that its event shows. */
export type EventRecord = {
  public_id: string;
  name: string;
  attestation_type: string;
  is_compliant: 0 | 1;
  artifact_fingerprint: string | null;
  git_commit_info_json: string | null;
  repo_info_json: string | null;
};

/** @returns a function that computes the value of a text again only when it differs from the last one */
function rememberLast<Value>(compute: (text: string) => Value): (text: string) => Value {
  let last: { text: string; value: Value } | null = null;
  return (text) => {
    if (last?.text !== text) last = { text, value: compute(text) };
    return last.value;
  };
}

/** The members of an object as JSON text, with a comma before each of them. */
function membersOf(value: object): string {
  const text = JSON.stringify(value);
  return text === "{}" ? "" : `,${text.slice(1, -1)}`;
}

function readDetail(json: string) {
  const { target_artifact, is_reattestation, git_commit_info, ...artifact } = JSON.parse(
    json,
  ) as AttestationEventDetail;
  return {
    target: membersOf(target_artifact === undefined ? {} : { target_artifact }),
    artifact: membersOf({ ...artifact, is_reattestation }),
    showsCommit: git_commit_info === undefined,
  };
}

/**
 * Composes the members of events as JSON text, in the order in which events have always had them. Most events of a
 * history repeat the commit, the repository and the detail of the one before, which are then not parsed again.
 * @returns a function of a record and of the stored text of its detail; it throws SyntaxError for a damaged one
 */
export function createEventComposer(): (record: EventRecord, detail: string) => string {
  const detailOf = rememberLast(readDetail);
  const commitOf = rememberLast((json) => (json.length > MAX_PARSED_CHARS ? json : JSON.stringify(JSON.parse(json))));
  const repoOf = rememberLast((json) => {
    const repo = JSON.parse(json) as ReportedRepo | null;
    return JSON.stringify(repo && describeEventRepo(repo));
  });
  return (record, detail) => {
    const { target, artifact, showsCommit } = detailOf(detail);
    const { artifact_fingerprint: fingerprint, git_commit_info_json: commit, repo_info_json: repo } = record;
    const head = JSON.stringify({
      attestation_type: record.attestation_type,
      attestation_id: record.public_id,
      is_compliant: record.is_compliant === 1,
      // The attestation's own name, which is its name in the template (wire-contract 4).
      template_reference_name: record.name,
    });
    const members = [
      head.slice(0, -1),
      target,
      fingerprint === null ? "" : membersOf({ artifact_fingerprint: fingerprint }),
      artifact,
      `,"git_commit_info":${showsCommit && commit !== null ? commitOf(commit) : "null"}`,
      `,"repo_info":${repo === null ? "null" : repoOf(repo)}`,
    ];
    return `${members.join("")}}`;
  };
}
