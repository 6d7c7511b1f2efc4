/**
 * The search for names (api/flows/name-search.ts). Reads are bounded whatever the size of the database: names of which
 * an organization has few are compared one by one, those of trails and artifacts are looked up in an index by their
 * beginning, and the latest ones are compared one by one as well. Read-only.
 */
import type { DbReader } from "../db/types.ts";
import { OPEN } from "./snapshots.ts";

/** Flows, environments, policies, repositories and service accounts that are compared one by one. */
const MAX_COMPARED = 5_000;
/** Flows whose trails are looked up, the latest activity first. */
const MAX_FLOWS = 1_000;
/** The latest trails, and running artifacts, that are compared one by one. */
const MAX_LATEST = 1_000;

/** What was found. `name` identifies it within its kind and, for a trail, its flow. */
type NamedRow = { name: string; detail: string };
type NamedTrailRow = { name: string; flow_name: string; state: string };
type NamedArtifactRow = {
  name: string;
  fingerprint: string;
  /** null for an artifact that runs without having been reported. */
  flow_name: string | null;
  /** null as well. */
  public_id: string | null;
};
type NamedRepoRow = NamedRow & { public_id: string };
/** A commit that a record names. */
type NamedCommitRow = { flow_name: string; trail_name: string | null };

type Terms = { organization: number; text: string; folded: string; limit: number };
type Range = { organization: number; from: string; until: string };

type AttestedCommitRow = NamedCommitRow & { git_commit: string };

/** Sorts after every text that begins with `prefix`. */
const endOf = (prefix: string): string => `${prefix}\u{10ffff}`;

function prepareKinds(db: DbReader) {
  // instr, not LIKE, so that `_` and `%` match themselves. Names that begin with the text come first.
  const best = (name: string): string =>
    `ORDER BY instr(lower(${name}), @folded) > 1, length(${name}), ${name} LIMIT @limit`;
  const flows = db.prepare<[Terms], NamedRow>(
    `SELECT name, detail FROM (
       SELECT f.name, f.description AS detail FROM flows f WHERE f.organization_id = @organization
         AND f.archived_at IS NULL ORDER BY f.latest_activity_at DESC LIMIT ${MAX_COMPARED}) AS shown
     WHERE instr(lower(name), @folded) > 0 ${best("name")}`,
  );
  const environments = db.prepare<[Terms], NamedRow>(
    `SELECT name, detail FROM (
       SELECT env.name, env.type AS detail FROM environments env WHERE env.organization_id = @organization
         AND env.archived_at IS NULL LIMIT ${MAX_COMPARED}) AS shown
     WHERE instr(lower(name), @folded) > 0 ${best("name")}`,
  );
  const policies = db.prepare<[Terms], NamedRow>(
    `SELECT name, detail FROM (
       SELECT pol.name, pol.description AS detail FROM policies pol WHERE pol.organization_id = @organization
       LIMIT ${MAX_COMPARED}) AS shown
     WHERE instr(lower(name), @folded) > 0 ${best("name")}`,
  );
  const controls = db.prepare<[Terms], NamedRow>(
    `SELECT name, detail FROM (
       SELECT c.identifier AS name, c.name AS detail, c.name_folded FROM controls c
       WHERE c.organization_id = @organization AND c.archived = 0 LIMIT ${MAX_COMPARED}) AS shown
     WHERE instr(lower(name), @folded) > 0 OR instr(name_folded, @folded) > 0 ${best("name")}`,
  );
  const repos = db.prepare<[Terms], NamedRepoRow>(
    `SELECT name, detail, public_id FROM (
       SELECT r.name, r.url AS detail, r.public_id, r.search_name FROM repos r WHERE r.organization_id = @organization
       ORDER BY r.name LIMIT ${MAX_COMPARED}) AS shown
     WHERE instr(search_name, @folded) > 0 ${best("search_name")}`,
  );
  const serviceAccounts = db.prepare<[Terms], NamedRow>(
    `SELECT name, detail FROM (
       SELECT sa.name, coalesce(sa.description, '') AS detail FROM service_accounts sa
       WHERE sa.organization_id = @organization LIMIT ${MAX_COMPARED}) AS shown
     WHERE instr(lower(name), @folded) > 0 ${best("name")}`,
  );
  return { flows, environments, policies, controls, repos, serviceAccounts };
}

function prepareTrails(db: DbReader) {
  const beginning = db.prepare<[Terms & { until: string }], NamedTrailRow>(
    `SELECT t.name, latest_flows.name AS flow_name, t.state
     FROM (SELECT id, name, latest_activity_at FROM flows
           WHERE organization_id = @organization AND archived_at IS NULL
           ORDER BY latest_activity_at DESC LIMIT ${MAX_FLOWS}) AS latest_flows
       CROSS JOIN trails t ON t.flow_id = latest_flows.id AND t.name >= @text AND t.name < @until
     LIMIT @limit`,
  );
  const latest = db.prepare<[Terms], NamedTrailRow>(
    `SELECT t.name, f.name AS flow_name, t.state
     FROM (SELECT id FROM trails WHERE organization_id = @organization ORDER BY id DESC LIMIT ${MAX_LATEST}) AS newest
       CROSS JOIN trails t ON t.id = newest.id
       CROSS JOIN flows f ON f.id = t.flow_id AND f.archived_at IS NULL
     WHERE instr(lower(t.name), @folded) > 0 LIMIT @limit`,
  );
  return (terms: Terms): NamedTrailRow[] => {
    const named = beginning.all({ ...terms, until: endOf(terms.text) });
    const isMeant = ({ name }: NamedTrailRow): boolean => name === terms.text;
    return unique(
      [...named.filter(isMeant), ...latest.all(terms), ...named],
      (row) => `${row.flow_name}/${row.name}`,
    ).slice(0, terms.limit);
  };
}

function prepareArtifacts(db: DbReader) {
  const next = db
    .prepare<[Range], string>(
      `SELECT a.filename FROM artifacts a WHERE a.organization_id = @organization
         AND a.filename >= @from COLLATE NOCASE AND a.filename < @until COLLATE NOCASE
       ORDER BY a.filename COLLATE NOCASE LIMIT 1`,
    )
    .pluck();
  const after = db
    .prepare<[Range], string>(
      `SELECT a.filename FROM artifacts a WHERE a.organization_id = @organization
         AND a.filename > @from COLLATE NOCASE AND a.filename < @until COLLATE NOCASE
       ORDER BY a.filename COLLATE NOCASE LIMIT 1`,
    )
    .pluck();
  const latestOf = db.prepare<[number, string], NamedArtifactRow>(
    `SELECT a.filename AS name, a.fingerprint, f.name AS flow_name, a.public_id
     FROM artifacts a CROSS JOIN flows f ON f.id = a.flow_id
     WHERE a.organization_id = ? AND a.filename = ? COLLATE NOCASE ORDER BY a.id DESC LIMIT 1`,
  );
  const runs = db.prepare<[Terms], Pick<NamedArtifactRow, "name" | "fingerprint">>(
    `SELECT name, fingerprint FROM (
       SELECT sa.name, sa.fingerprint FROM snapshot_artifacts sa
       WHERE sa.organization_id = @organization AND sa.last_index = ${OPEN} AND sa.fingerprint > ''
       LIMIT ${MAX_LATEST}) AS shown
     WHERE instr(lower(name), @folded) > 0 LIMIT @limit`,
  );
  const latestRecord = db.prepare<[number, string], NamedArtifactRow>(
    `SELECT a.filename AS name, a.fingerprint, f.name AS flow_name, a.public_id
     FROM artifacts a CROSS JOIN flows f ON f.id = a.flow_id
     WHERE a.organization_id = ? AND a.fingerprint = ? ORDER BY a.id DESC LIMIT 1`,
  );
  /** One lookup for each distinct name that begins with the text. */
  function listNames({ organization, text, limit }: Terms): string[] {
    const names: string[] = [];
    const until = endOf(text);
    let name = next.get({ organization, from: text, until });
    while (name !== undefined && names.length < limit) {
      names.push(name);
      name = after.get({ organization, from: name, until });
    }
    return names;
  }
  const findRecord = (organizationId: number, fingerprint: string): NamedArtifactRow | null =>
    latestRecord.get(organizationId, fingerprint) ?? null;
  return {
    findRecord,
    list(terms: Terms): NamedArtifactRow[] {
      const reported = listNames(terms).flatMap((name) => latestOf.get(terms.organization, name) ?? []);
      const running = runs.all(terms).map(
        ({ name, fingerprint }): NamedArtifactRow => ({
          flow_name: null,
          public_id: null,
          ...findRecord(terms.organization, fingerprint),
          name,
          fingerprint,
        }),
      );
      return unique([...reported, ...running], ({ fingerprint }) => fingerprint).slice(0, terms.limit);
    },
  };
}

export function nameSearchStore(db: DbReader) {
  const kinds = prepareKinds(db);
  const listTrails = prepareTrails(db);
  const artifacts = prepareArtifacts(db);
  const ofCommit = db.prepare<[number, string], NamedCommitRow>(
    `SELECT f.name AS flow_name, t.name AS trail_name FROM artifacts a CROSS JOIN flows f ON f.id = a.flow_id
       LEFT JOIN trails t ON t.id = a.trail_id
     WHERE a.organization_id = ? AND a.git_commit = ? ORDER BY a.id DESC LIMIT 1`,
  );
  const nextAttested = db.prepare<[Range], AttestedCommitRow>(
    `SELECT att.git_commit, f.name AS flow_name, t.name AS trail_name
     FROM attestations att CROSS JOIN trails t ON t.id = att.trail_id CROSS JOIN flows f ON f.id = t.flow_id
     WHERE att.organization_id = @organization AND att.git_commit >= @from AND att.git_commit < @until
     ORDER BY att.git_commit LIMIT 1`,
  );
  return {
    /** Terms of a search. @param text without spaces around it @param limit results of each kind */
    terms: (organization: number, text: string, limit: number): Terms => ({
      organization,
      text,
      folded: text.normalize("NFC").toLowerCase(),
      limit,
    }),
    listFlows: (terms: Terms): NamedRow[] => kinds.flows.all(terms),
    listEnvironments: (terms: Terms): NamedRow[] => kinds.environments.all(terms),
    listPolicies: (terms: Terms): NamedRow[] => kinds.policies.all(terms),
    listServiceAccounts: (terms: Terms): NamedRow[] => kinds.serviceAccounts.all(terms),
    /** `name` is the identifier, `detail` the name. */
    listControls: (terms: Terms): NamedRow[] => kinds.controls.all(terms),
    listRepos: (terms: Terms): NamedRepoRow[] => kinds.repos.all(terms),
    listTrails,
    /** Reported artifacts by the beginning of their names, then running ones by any part. */
    listArtifacts: (terms: Terms): NamedArtifactRow[] => artifacts.list(terms),
    /** The latest record of a fingerprint; null if it was never reported. */
    findRecord: artifacts.findRecord,
    /** Where an artifact of a commit was reported last; null if none was. */
    findCommit: (organizationId: number, commit: string): NamedCommitRow | null =>
      ofCommit.get(organizationId, commit) ?? null,
    /** At most `limit` commits with that prefix that attestations name, each with one of their trails. */
    listAttestedCommits(organization: number, prefix: string, limit: number): AttestedCommitRow[] {
      const rows: AttestedCommitRow[] = [];
      const until = endOf(prefix);
      let row = nextAttested.get({ organization, from: prefix, until });
      while (row && rows.length < limit) {
        rows.push(row);
        // Sorts after the commit and before every other one.
        row = nextAttested.get({ organization, from: `${row.git_commit} `, until });
      }
      return rows;
    },
  };
}

/** The first of the rows with each key. */
function unique<T>(rows: readonly T[], keyOf: (row: T) => string): T[] {
  const seen = new Set<string>();
  return rows.filter((row) => !seen.has(keyOf(row)) && seen.add(keyOf(row)));
}
