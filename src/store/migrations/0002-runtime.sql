-- Environments. The columns from last_reported_at on follow from reports and snapshots and are kept here so that lists and
-- unchanged reports look at one row. revision moves with everything that a verdict in the environment depends on;
-- checked_revision is the one at which the latest snapshot was last compared with the facts.
CREATE TABLE environments (
  id                    INTEGER PRIMARY KEY,
  public_id             TEXT NOT NULL UNIQUE,
  organization_id       INTEGER NOT NULL REFERENCES organizations (id),
  name                  TEXT NOT NULL,
  type                  TEXT NOT NULL CHECK (type IN ('K8S', 'ECS', 'S3', 'lambda', 'server', 'docker', 'azure-apps', 'cloud-run', 'logical')),
  description           TEXT NOT NULL DEFAULT '',
  include_scaling       INTEGER NOT NULL DEFAULT 0 CHECK (include_scaling IN (0, 1)),
  require_provenance    INTEGER NOT NULL DEFAULT 0 CHECK (require_provenance IN (0, 1)),
  archived_at           REAL,
  archived_name         TEXT, -- the name before archiving; `name` then carries the suffix
  created_at            REAL NOT NULL,
  last_modified_at      REAL NOT NULL,
  last_reported_at      REAL,
  snapshot_count        INTEGER NOT NULL DEFAULT 0, -- also the index of the latest snapshot
  last_changed_at       REAL,                       -- time of the latest snapshot
  state                 INTEGER CHECK (state IN (0, 1)), -- verdict of the latest snapshot; NULL: unknown
  running_digest        TEXT,                       -- SHA-256 of the names and fingerprints of the latest snapshot
  revision              INTEGER NOT NULL DEFAULT 0,
  checked_revision      INTEGER NOT NULL DEFAULT -1,
  UNIQUE (organization_id, name)
) STRICT;
CREATE INDEX environments_by_archived_name ON environments (organization_id, archived_name) WHERE archived_name IS NOT NULL;

-- Earlier names of renamed environments; a row dies when another environment takes the name.
CREATE TABLE environment_aliases (
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  name            TEXT NOT NULL,
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  PRIMARY KEY (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE environment_tags (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  key            TEXT NOT NULL,
  value          TEXT NOT NULL,
  PRIMARY KEY (environment_id, key)
) STRICT, WITHOUT ROWID;

-- Members of logical environments, in the order in which they were given.
CREATE TABLE environment_members (
  logical_id INTEGER NOT NULL REFERENCES environments (id),
  position   INTEGER NOT NULL,
  member_id  INTEGER NOT NULL REFERENCES environments (id),
  PRIMARY KEY (logical_id, member_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX environment_members_by_member ON environment_members (member_id);

-- An attachment is to the policy; the latest version applies. In the order of attaching.
CREATE TABLE environment_policies (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  policy_id      INTEGER NOT NULL REFERENCES policies (id),
  position       INTEGER NOT NULL,
  PRIMARY KEY (environment_id, policy_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX environment_policies_by_policy ON environment_policies (policy_id);

-- Fingerprints that an environment accepts whatever its policies say. Append-only, the latest entry of a fingerprint counts.
CREATE TABLE allowlist_entries (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  fingerprint     TEXT NOT NULL CHECK (length(fingerprint) = 64),
  artifact_name   TEXT NOT NULL,
  description     TEXT NOT NULL,
  user_id         TEXT NOT NULL, -- public id of who allowed it
  user_name       TEXT NOT NULL,
  timestamp       REAL NOT NULL
) STRICT;
CREATE INDEX allowlist_entries_by_organization ON allowlist_entries (organization_id, id);
CREATE INDEX allowlist_entries_by_fingerprint ON allowlist_entries (environment_id, fingerprint, id);

-- Snapshots, append-only: idx 1, 2, 3, ... without a gap in each environment, times never going back. What was running is in
-- snapshot_artifacts (physical) or snapshot_members (logical). The counts leave out what exited.
CREATE TABLE snapshots (
  environment_id       INTEGER NOT NULL REFERENCES environments (id),
  idx                  INTEGER NOT NULL CHECK (idx > 0),
  timestamp            REAL NOT NULL,
  cause                TEXT NOT NULL CHECK (cause IN ('report', 'policies', 'policy_version', 'allowlist', 'member')),
  compliant            INTEGER CHECK (compliant IN (0, 1)), -- NULL: unknown
  compliant_count      INTEGER NOT NULL,
  non_compliant_count  INTEGER NOT NULL,
  unknown_count        INTEGER NOT NULL,
  user_id              TEXT NOT NULL, -- public id of who reported, or of who changed the policies or the allowlist
  user_name            TEXT NOT NULL,
  policy_versions_json TEXT NOT NULL, -- keys of the policy versions that were evaluated, in the order of attaching
  member_id            INTEGER REFERENCES environments (id), -- of a logical one: the member whose snapshot caused it
  member_index         INTEGER,
  PRIMARY KEY (environment_id, idx),
  CHECK ((cause = 'member') = (member_id IS NOT NULL AND member_index IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshots_by_time ON snapshots (environment_id, timestamp);
CREATE INDEX snapshots_by_member ON snapshots (member_id, member_index) WHERE member_id IS NOT NULL;

-- A verdict on one artifact in one environment, with the facts that it was found on: evaluating facts_json under the named
-- policy versions again gives verdicts_json. Write-once; shared by all snapshots for which it held.
CREATE TABLE evaluations (
  id             INTEGER PRIMARY KEY,
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  compliant      INTEGER CHECK (compliant IN (0, 1)),
  allowlist_id   INTEGER REFERENCES allowlist_entries (id),
  facts_json     TEXT NOT NULL,
  verdicts_json  TEXT NOT NULL,
  reasons_json   TEXT NOT NULL
) STRICT;

-- What ran, as intervals: one row says that from snapshot first_index to snapshot last_index an artifact was there with
-- this verdict and these instances; the largest integer of JSON stands for "still so". annotation, was and now tell how
-- it came to be so in first_index; in the later ones it is unchanged. An artifact that stopped has a last row of one
-- snapshot with annotation 'exited' and now = 0. Rows whose annotation is not 'unchanged' are the events of the environment.
CREATE TABLE snapshot_artifacts (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  first_index     INTEGER NOT NULL,
  last_index      INTEGER NOT NULL DEFAULT 9007199254740991,
  fingerprint     TEXT NOT NULL, -- '': the reporter could not resolve the image
  name            TEXT NOT NULL,
  annotation      TEXT NOT NULL CHECK (annotation IN (
    'started-compliant', 'started-non-compliant', 'started-unknown', 'exited', 'became-compliant', 'became-non-compliant',
    'updated-provenance', 'unchanged', 'started', 'changed', 'scaled')), -- the last three: old data only, never made
  was             INTEGER NOT NULL,
  now             INTEGER NOT NULL,
  compliant       INTEGER CHECK (compliant IN (0, 1)),
  evaluation_id   INTEGER NOT NULL REFERENCES evaluations (id),
  started_index   INTEGER NOT NULL, -- the snapshot with which this artifact started
  instances_json  TEXT NOT NULL,
  CHECK (first_index <= last_index AND started_index <= first_index)
) STRICT;
CREATE INDEX snapshot_artifacts_by_snapshot ON snapshot_artifacts (environment_id, last_index, first_index);
CREATE INDEX snapshot_artifacts_events ON snapshot_artifacts (environment_id, first_index, id) WHERE annotation <> 'unchanged';
CREATE INDEX snapshot_artifacts_by_fingerprint ON snapshot_artifacts (organization_id, fingerprint, environment_id, first_index);
CREATE INDEX snapshot_artifacts_running ON snapshot_artifacts (organization_id, fingerprint, environment_id) WHERE last_index = 9007199254740991;

-- The events of an environment by the repositories from which their artifacts had provenance then: derived, for filters.
CREATE TABLE environment_event_repos (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  repo_id        INTEGER NOT NULL REFERENCES repos (id),
  first_index    INTEGER NOT NULL,
  event_id       INTEGER NOT NULL, -- of snapshot_artifacts
  PRIMARY KEY (environment_id, repo_id, first_index, event_id)
) STRICT, WITHOUT ROWID;

-- Running artifacts whose facts changed since they were evaluated; the next snapshot takes the new facts and clears the marks.
CREATE TABLE stale_artifacts (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  fingerprint    TEXT NOT NULL,
  PRIMARY KEY (environment_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- Members of a logical environment in its snapshots, as intervals: from first_index to last_index the member was shown at
-- its own snapshot member_index.
CREATE TABLE snapshot_members (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  member_id      INTEGER NOT NULL REFERENCES environments (id),
  member_index   INTEGER NOT NULL,
  position       INTEGER NOT NULL,
  first_index    INTEGER NOT NULL,
  last_index     INTEGER NOT NULL DEFAULT 9007199254740991,
  PRIMARY KEY (environment_id, last_index, member_id)
) STRICT, WITHOUT ROWID;

-- An artifact with provenance started in an environment: one row for each flow it had then; ordinal 0 is the build flow, and
-- those rows are the deployments that lists show. replaced_id is what ran before under the same flow and reference name.
CREATE TABLE deployments (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  snapshot_index  INTEGER NOT NULL,
  deployed_at     REAL NOT NULL,
  fingerprint     TEXT NOT NULL,
  artifact_name   TEXT NOT NULL,
  compliant       INTEGER CHECK (compliant IN (0, 1)),
  ordinal         INTEGER NOT NULL,
  flow_id         INTEGER NOT NULL REFERENCES flows (id),
  artifact_id     INTEGER NOT NULL REFERENCES artifacts (id),
  repo_id         INTEGER REFERENCES repos (id),
  reference_name  TEXT NOT NULL, -- '': reported without one
  replaced_id     INTEGER -- a row of this table; no foreign key, which would look through the table at every insert
) STRICT;
CREATE INDEX deployments_by_organization ON deployments (organization_id, deployed_at) WHERE ordinal = 0;
CREATE INDEX deployments_by_environment ON deployments (environment_id, deployed_at) WHERE ordinal = 0;
CREATE INDEX deployments_by_fingerprint ON deployments (environment_id, fingerprint, id);
CREATE INDEX deployments_by_slot ON deployments (environment_id, flow_id, reference_name, id);
CREATE INDEX deployments_by_flow ON deployments (environment_id, flow_id, deployed_at);
CREATE INDEX deployments_by_repo ON deployments (repo_id, deployed_at) WHERE ordinal = 0 AND repo_id IS NOT NULL;

-- Work that a committed change asks for, inserted with the change (outbox). A row goes when its work is done; leased_until
-- keeps others away from it for that long.
CREATE TABLE jobs (
  id           INTEGER PRIMARY KEY,
  kind         TEXT NOT NULL,
  payload_json TEXT NOT NULL,
  created_at   REAL NOT NULL,
  due_at       REAL NOT NULL,
  leased_until REAL NOT NULL DEFAULT 0,
  attempts     INTEGER NOT NULL DEFAULT 0,
  last_error   TEXT
) STRICT;
CREATE INDEX jobs_by_due ON jobs (kind, due_at);
