-- The schema of record: what a new database gets. Existing databases get here through src/store/migrations, and a test
-- proves that both ways lead to the same schema.
--
-- Conventions: integer primary keys for internal use, public ids (8-4-4-4-8 hex) beside them; times are epoch seconds
-- as REAL; booleans are 0 or 1; columns that end in _json hold JSON text that is always read as a whole; NULL means
-- absent. created_by and the like hold the display name at the time; audit_log identifies the principal.
--
-- Aliases: queries use one fixed alias per table. A second use of a table in one query gets the name of its role
-- (member, original, earlier, same, other, prev), and a table-valued json_each(?) of bound ids is called wanted.
--
--   a     artifacts                   env   environments                run   retention_runs
--   acc   service_accounts            ep    environment_policies        s     snapshots
--   act   actions                     ev    evaluations                 sa    snapshot_artifacts
--   ae    allowlist_ends              f     flows                       ser   attestation_series
--   al    allowlist_entries           hold  legal_holds                 ses   sessions
--   att   attestations                j     jobs                        sr    attestation_series_records
--   b     attestation_bindings        k     api_keys                    t     trails
--   build builds                      m     memberships                 te    trail_events
--   c     controls                    o     organizations               tgt   notification_targets
--   ct    custom_types                pb    pending_bindings            tomb  tombstones
--   ctv   custom_type_versions        pol   policies                    tpl   templates
--   cur   current_attestations        pv    policy_versions             tr    trail_repos
--   d     deliveries                  pvc   policy_version_controls     u     users
--   dep   deployments                 r     repos                       w     api_key_warnings
--   em    environment_members         rd    rego_documents
--   re    rego_evaluations            rp    rego_policies
--   ret   rego_evaluation_trails      rpv   rego_policy_versions        rr    retention_rules

CREATE TABLE organizations (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  name             TEXT NOT NULL UNIQUE,
  kind             TEXT NOT NULL CHECK (kind IN ('personal', 'shared')),
  is_public        INTEGER NOT NULL DEFAULT 0 CHECK (is_public IN (0, 1)),
  controls_enabled INTEGER NOT NULL DEFAULT 1 CHECK (controls_enabled IN (0, 1)),
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  evaluations_enabled             INTEGER NOT NULL DEFAULT 1 CHECK (evaluations_enabled IN (0, 1)),
  decisions_need_published_policy INTEGER NOT NULL DEFAULT 0 CHECK (decisions_need_published_policy IN (0, 1))
) STRICT;

CREATE TABLE users (
  id                      INTEGER PRIMARY KEY,
  public_id               TEXT NOT NULL UNIQUE,
  name                    TEXT NOT NULL UNIQUE,
  display_name            TEXT NOT NULL DEFAULT '',
  email                   TEXT,
  default_organization_id INTEGER REFERENCES organizations (id),
  created_at              REAL NOT NULL,
  last_modified_at        REAL NOT NULL
) STRICT;
-- E-mail lookups ignore case.
CREATE UNIQUE INDEX users_by_email ON users (lower(email)) WHERE email IS NOT NULL;

CREATE TABLE memberships (
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  user_id         INTEGER NOT NULL REFERENCES users (id),
  role            TEXT NOT NULL CHECK (role IN ('admin', 'member', 'snapshotter', 'reader')),
  created_at      REAL NOT NULL,
  PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_by_user ON memberships (user_id);

-- Saved views: a list page with its parameters under a name. Those of a member (user_id) end with the membership; those
-- without a user belong to the organization.
CREATE TABLE views (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  user_id          INTEGER,
  name             TEXT NOT NULL,
  page             TEXT NOT NULL,
  parameters_json  TEXT NOT NULL,
  created_by       TEXT NOT NULL,
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  FOREIGN KEY (organization_id, user_id) REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
) STRICT;
CREATE UNIQUE INDEX views_of_members ON views (user_id, organization_id, name) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX views_of_organizations ON views (organization_id, name) WHERE user_id IS NULL;

-- Append-only: every change of a membership, with its author. One index for each order in which the log is listed.
CREATE TABLE membership_events (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  timestamp       REAL NOT NULL,
  event_type      TEXT NOT NULL CHECK (event_type IN ('added', 'changed', 'removed')),
  user_name       TEXT NOT NULL, -- the login name
  user_shown      TEXT NOT NULL, -- the display name at the time
  role            TEXT,          -- the new one; NULL for a removed member
  previous_role   TEXT,
  changed_by      TEXT NOT NULL,
  source          TEXT NOT NULL CHECK (source IN ('app', 'scim', 'invitation', 'script', 'oidc')),
  search_text     TEXT NOT NULL  -- all names in lower case
) STRICT;
CREATE INDEX membership_events_by_organization ON membership_events (organization_id, timestamp);
CREATE INDEX membership_events_by_user ON membership_events (organization_id, user_shown COLLATE NOCASE);
CREATE INDEX membership_events_by_role ON membership_events (organization_id, role);
CREATE INDEX membership_events_by_actor ON membership_events (organization_id, changed_by COLLATE NOCASE);
CREATE INDEX membership_events_by_source ON membership_events (organization_id, source);

CREATE TABLE service_accounts (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  name             TEXT NOT NULL,
  description      TEXT,
  privilege        TEXT NOT NULL CHECK (privilege IN ('admin', 'member', 'snapshotter', 'reader')),
  creating_user_id TEXT NOT NULL,
  for_webhook      INTEGER NOT NULL DEFAULT 0 CHECK (for_webhook IN (0, 1)),
  created_at       REAL NOT NULL,
  UNIQUE (organization_id, name)
) STRICT;

-- A key belongs to a user or to a service account. Only its SHA-256 is stored.
CREATE TABLE api_keys (
  id                      INTEGER PRIMARY KEY,
  public_id               TEXT NOT NULL UNIQUE,
  digest                  BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  user_id                 INTEGER REFERENCES users (id),
  service_account_id      INTEGER REFERENCES service_accounts (id) ON DELETE CASCADE,
  description             TEXT NOT NULL,
  created_at              REAL NOT NULL,
  expires_at              REAL NOT NULL DEFAULT 0, -- 0: never
  last_used_at            REAL NOT NULL DEFAULT 0, -- 0: never used
  grace_period_expires_at REAL,                    -- set by a rotation: the key is invalid from then on
  revoked_at              REAL,
  replaced_by             TEXT,                    -- public id of the key that replaced it in a rotation
  creating_user_id        TEXT,                    -- public id of the user who created it; NULL for the operator
  CHECK ((user_id IS NULL) <> (service_account_id IS NULL))
) STRICT;
CREATE INDEX api_keys_by_user ON api_keys (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX api_keys_by_service_account ON api_keys (service_account_id) WHERE service_account_id IS NOT NULL;
CREATE INDEX api_keys_in_grace ON api_keys (grace_period_expires_at)
  WHERE revoked_at IS NULL AND grace_period_expires_at IS NOT NULL;
CREATE INDEX api_keys_by_end ON api_keys (expires_at)
  WHERE revoked_at IS NULL AND grace_period_expires_at IS NULL AND expires_at > 0;

-- The expiry warnings that were sent: for each key, expiry and threshold in days.
CREATE TABLE api_key_warnings (
  key_id     INTEGER NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  expires_at REAL NOT NULL,
  days       INTEGER NOT NULL,
  warned_at  REAL NOT NULL,
  PRIMARY KEY (key_id, expires_at, days)
) STRICT, WITHOUT ROWID;

-- Flow templates, write-once: flows and trails point at the text that was in force.
CREATE TABLE templates (
  id        INTEGER PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  content   TEXT NOT NULL
  -- The parsed form of a long text, so that it is not parsed again. Laid out as SQLite lays out an added column.
, parsed_json TEXT) STRICT;

CREATE TABLE flows (
  id                 INTEGER PRIMARY KEY,
  public_id          TEXT NOT NULL UNIQUE,
  organization_id    INTEGER NOT NULL REFERENCES organizations (id),
  name               TEXT NOT NULL,
  description        TEXT NOT NULL DEFAULT '',
  visibility         TEXT NOT NULL CHECK (visibility IN ('public', 'private')),
  template_id        INTEGER NOT NULL REFERENCES templates (id),
  repo_url           TEXT,
  archived_at        REAL,
  archived_name      TEXT, -- the name before archiving; `name` then carries the suffix
  latest_activity_at REAL,
  latest_state       TEXT,
  created_at         REAL NOT NULL,
  last_modified_at   REAL NOT NULL,
  trail_count        INTEGER NOT NULL DEFAULT 0, -- derived: the number of trails, so that their lists need no count
  UNIQUE (organization_id, name)
) STRICT;
CREATE INDEX flows_by_archived_name ON flows (organization_id, archived_name) WHERE archived_name IS NOT NULL;
CREATE INDEX flows_by_activity ON flows (organization_id, latest_activity_at);

-- Former names of renamed flows. A row is deleted when another flow takes the name.
CREATE TABLE flow_aliases (
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  name            TEXT NOT NULL,
  flow_id         INTEGER NOT NULL REFERENCES flows (id),
  PRIMARY KEY (organization_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE flow_tags (
  flow_id INTEGER NOT NULL REFERENCES flows (id),
  key     TEXT NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (flow_id, key)
) STRICT, WITHOUT ROWID;

-- Source repositories, captured from repo_info and identified by the forge's id and the provider. search_name,
-- vcs_instance and namespace are derived from name, url and namespace_path_json (domain/network/repository-url.ts),
-- for filters.
CREATE TABLE repos (
  id                   INTEGER PRIMARY KEY,
  public_id            TEXT NOT NULL UNIQUE,
  organization_id      INTEGER NOT NULL REFERENCES organizations (id),
  external_id          TEXT NOT NULL,
  provider             TEXT NOT NULL DEFAULT '', -- '': unknown
  name                 TEXT NOT NULL,
  url                  TEXT NOT NULL,
  description          TEXT NOT NULL DEFAULT '',
  namespace_path_json  TEXT,
  additional_info_json TEXT,
  created_at           REAL NOT NULL,
  last_modified_at     REAL NOT NULL,
  search_name          TEXT NOT NULL DEFAULT '',
  vcs_instance         TEXT NOT NULL DEFAULT '',
  namespace            TEXT NOT NULL DEFAULT '',
  latest_activity_at   REAL NOT NULL DEFAULT 0, -- of the latest report that named it
  UNIQUE (organization_id, external_id, provider)
) STRICT;
-- Contains every column that lists filter by, so that a list reads only the rows of its page.
CREATE INDEX repos_listed ON repos (organization_id, name, id, search_name, provider, vcs_instance, namespace);

-- A trail has its verdict: compliance_json is the complete compliance_status, reasons_json gives the reasons in words.
CREATE TABLE trails (
  id                   INTEGER PRIMARY KEY,
  public_id            TEXT NOT NULL UNIQUE,
  organization_id      INTEGER NOT NULL REFERENCES organizations (id),
  flow_id              INTEGER NOT NULL REFERENCES flows (id),
  name                 TEXT NOT NULL,
  description          TEXT,
  git_commit_info_json TEXT,
  origin_url           TEXT,
  external_urls_json   TEXT,
  user_data_json       TEXT,
  template_id          INTEGER NOT NULL REFERENCES templates (id),
  template_inherited   INTEGER NOT NULL CHECK (template_inherited IN (0, 1)),
  created_by           TEXT NOT NULL,
  created_at           REAL NOT NULL,
  last_modified_at     REAL NOT NULL,
  state                TEXT NOT NULL CHECK (state IN ('INCOMPLETE', 'COMPLIANT', 'NON-COMPLIANT')),
  compliance_json      TEXT NOT NULL,
  reasons_json         TEXT NOT NULL,
  UNIQUE (flow_id, name)
) STRICT;
CREATE INDEX trails_by_organization ON trails (organization_id, id);
CREATE INDEX trails_by_flow ON trails (flow_id, id);
CREATE INDEX trails_needing_attention ON trails (organization_id, last_modified_at) WHERE state <> 'COMPLIANT';
-- Most trails are compliant and not in it.
CREATE INDEX trails_unfinished ON trails (flow_id, state, id) WHERE state <> 'COMPLIANT';

-- The history of a trail, append-only. event_json holds the members that depend on the type. The event of an
-- attestation names its record, without a foreign key: then no deletion of a record searches this table. Its event_json
-- holds what the record does not have (domain/attestation/event.ts).
CREATE TABLE trail_events (
  id         INTEGER PRIMARY KEY,
  trail_id   INTEGER NOT NULL REFERENCES trails (id),
  type       TEXT NOT NULL,
  timestamp  REAL NOT NULL,
  event_json TEXT NOT NULL
, attestation_id INTEGER) STRICT;
CREATE INDEX trail_events_by_trail ON trail_events (trail_id, id);

CREATE TABLE trail_repos (
  trail_id INTEGER NOT NULL REFERENCES trails (id),
  repo_id  INTEGER NOT NULL REFERENCES repos (id),
  PRIMARY KEY (trail_id, repo_id)
) STRICT, WITHOUT ROWID;

-- One record for each trail, fingerprint and reference name; a legacy record has no trail. state and reasons_json are
-- the verdict of the artifact in its trail, attestations_json its artifact-level statuses.
CREATE TABLE artifacts (
  id                   INTEGER PRIMARY KEY,
  public_id            TEXT NOT NULL UNIQUE,
  organization_id      INTEGER NOT NULL REFERENCES organizations (id),
  flow_id              INTEGER NOT NULL REFERENCES flows (id),
  trail_id             INTEGER REFERENCES trails (id),
  fingerprint          TEXT NOT NULL CHECK (length(fingerprint) = 64),
  reference_name       TEXT,
  filename             TEXT NOT NULL,
  description          TEXT,
  git_commit           TEXT,
  git_commit_info_json TEXT,
  commits_list_json    TEXT,
  repo_info_json       TEXT,
  repo_id              INTEGER REFERENCES repos (id),
  repo_url             TEXT,
  build_url            TEXT NOT NULL,
  commit_url           TEXT NOT NULL,
  external_urls_json   TEXT,
  annotations_json     TEXT,
  user_data_json       TEXT,
  template_json        TEXT NOT NULL, -- names of the attestations expected at the latest report
  legacy_is_compliant  INTEGER CHECK (legacy_is_compliant IN (0, 1)),
  created_by           TEXT NOT NULL,
  created_at           REAL NOT NULL,
  last_modified_at     REAL NOT NULL,
  state                TEXT NOT NULL CHECK (state IN ('INCOMPLETE', 'COMPLIANT', 'NON-COMPLIANT')),
  attestations_json    TEXT NOT NULL,
  reasons_json         TEXT NOT NULL,
  report_number        INTEGER NOT NULL DEFAULT 1 -- of its latest report: in a flow the highest counts
) STRICT;
CREATE UNIQUE INDEX artifacts_identity ON artifacts (trail_id, fingerprint, coalesce(reference_name, ''))
  WHERE trail_id IS NOT NULL;
CREATE UNIQUE INDEX artifacts_legacy_identity ON artifacts (flow_id, fingerprint) WHERE trail_id IS NULL;
CREATE INDEX artifacts_by_fingerprint ON artifacts (organization_id, fingerprint, id);
CREATE INDEX artifacts_by_flow_fingerprint ON artifacts (flow_id, fingerprint, report_number);
CREATE INDEX artifacts_by_commit ON artifacts (flow_id, git_commit);
CREATE INDEX artifacts_by_organization_commit ON artifacts (organization_id, git_commit, id);
CREATE INDEX artifacts_by_organization ON artifacts (organization_id, id);
CREATE INDEX artifacts_by_name ON artifacts (organization_id, filename COLLATE NOCASE);
CREATE INDEX artifacts_by_flow ON artifacts (flow_id, id);
CREATE INDEX artifacts_by_repo ON artifacts (repo_id, id) WHERE repo_id IS NOT NULL;
CREATE INDEX artifacts_by_repo_fingerprint ON artifacts (repo_id, fingerprint, id) WHERE repo_id IS NOT NULL;
-- Most artifacts are compliant and not in it.
CREATE INDEX artifacts_unfinished ON artifacts (organization_id, state, id, flow_id, repo_id, filename)
  WHERE state <> 'COMPLIANT';

-- Builds: the first record of each fingerprint in an organization. Derived, and written with that record.
CREATE TABLE builds (
  artifact_id     INTEGER PRIMARY KEY REFERENCES artifacts (id),
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  repo_id         INTEGER REFERENCES repos (id), -- that of the record
  created_at      REAL NOT NULL                  -- of the record
) STRICT;
CREATE INDEX builds_by_organization ON builds (organization_id, created_at);
CREATE INDEX builds_by_repo ON builds (repo_id, created_at) WHERE repo_id IS NOT NULL;

-- Every record ever reported, append-only. Ids rise in the order in which records were accepted.
CREATE TABLE attestations (
  id                    INTEGER PRIMARY KEY,
  public_id             TEXT NOT NULL UNIQUE,
  organization_id       INTEGER NOT NULL REFERENCES organizations (id),
  flow_id               INTEGER NOT NULL REFERENCES flows (id),
  trail_id              INTEGER NOT NULL REFERENCES trails (id),
  scope                 TEXT NOT NULL CHECK (scope IN ('trail', 'artifact')),
  name                  TEXT NOT NULL,
  type                  TEXT NOT NULL, -- generic, ..., custom:NAME, system:decision, override
  is_compliant          INTEGER NOT NULL CHECK (is_compliant IN (0, 1)),
  artifact_fingerprint  TEXT,
  target_artifacts_json TEXT,
  git_commit            TEXT,
  git_commit_info_json  TEXT,
  repo_info_json        TEXT,
  origin_url            TEXT,
  description           TEXT,
  annotations_json      TEXT NOT NULL,
  external_urls_json    TEXT,
  user_data_json        TEXT,
  payload_json          TEXT NOT NULL, -- the members that depend on the type, in the shape of the response
  reasons_json          TEXT NOT NULL,
  overridden_type       TEXT,          -- set for an override: the type of the record it overrides
  original_id           INTEGER REFERENCES attestations (id), -- set for an override: the record it overrides
  control               TEXT,
  control_version       INTEGER,
  evidence_digest       TEXT,          -- SHA-256 of the attached file: its address in evidence storage
  evidence_size         INTEGER,
  evidence_filename     TEXT,
  evidence_content_type TEXT,
  reported_by           TEXT NOT NULL,
  created_at            REAL NOT NULL,
  type_version          INTEGER,       -- set for a custom type: the version that evaluated it
  CHECK ((evidence_digest IS NULL) = (evidence_size IS NULL)),
  CHECK ((type = 'override') = (overridden_type IS NOT NULL))
) STRICT;
CREATE INDEX attestations_by_organization ON attestations (organization_id, created_at, id);
CREATE INDEX attestations_by_flow ON attestations (flow_id, created_at, id);
CREATE INDEX attestations_by_trail_name ON attestations (trail_id, name, id);
CREATE INDEX attestations_by_commit ON attestations (organization_id, git_commit, id) WHERE git_commit IS NOT NULL;
CREATE INDEX attestations_by_control ON attestations (organization_id, control, id, created_at, is_compliant, flow_id)
  WHERE control IS NOT NULL;
CREATE INDEX attestations_by_evidence ON attestations (evidence_digest) WHERE evidence_digest IS NOT NULL;

-- Series: the records of one flow, name, type and verdict. Derived in the write that appends each record. A search
-- finds the few matching series, and the records in them, without reading all others.
CREATE TABLE attestation_series (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  flow_id         INTEGER NOT NULL REFERENCES flows (id),
  name            TEXT NOT NULL,
  type            TEXT NOT NULL,
  overridden_type TEXT NOT NULL, -- '': not overrides
  is_compliant    INTEGER NOT NULL CHECK (is_compliant IN (0, 1)),
  UNIQUE (flow_id, name, type, overridden_type, is_compliant)
) STRICT;
CREATE INDEX attestation_series_by_name ON attestation_series (organization_id, name, is_compliant);
CREATE INDEX attestation_series_by_type ON attestation_series (organization_id, type, is_compliant);
CREATE INDEX attestation_series_by_overridden_type
  ON attestation_series (organization_id, overridden_type, is_compliant);
CREATE INDEX attestation_series_by_verdict ON attestation_series (organization_id, is_compliant);

CREATE TABLE attestation_series_records (
  series_id      INTEGER NOT NULL REFERENCES attestation_series (id),
  created_at     REAL NOT NULL,
  attestation_id INTEGER NOT NULL REFERENCES attestations (id),
  PRIMARY KEY (series_id, created_at, attestation_id)
) STRICT, WITHOUT ROWID;

-- The artifacts that a record is bound to, including artifacts reported after it.
CREATE TABLE attestation_bindings (
  artifact_id    INTEGER NOT NULL REFERENCES artifacts (id),
  attestation_id INTEGER NOT NULL REFERENCES attestations (id),
  PRIMARY KEY (artifact_id, attestation_id)
) STRICT, WITHOUT ROWID;

-- Records that wait for an artifact with this name and commit to be reported to the trail. Rows stay: several may
-- follow.
CREATE TABLE pending_bindings (
  trail_id       INTEGER NOT NULL REFERENCES trails (id),
  reference_name TEXT NOT NULL,
  git_commit     TEXT NOT NULL,
  attestation_id INTEGER NOT NULL REFERENCES attestations (id),
  PRIMARY KEY (trail_id, reference_name, git_commit, attestation_id)
) STRICT, WITHOUT ROWID;

-- The latest record of each name: on the trail itself (artifact_id 0) or on one of its artifacts. Derived in the
-- transaction that records the attestation, so that evaluating a trail reads only the records that count.
CREATE TABLE current_attestations (
  trail_id       INTEGER NOT NULL REFERENCES trails (id),
  artifact_id    INTEGER NOT NULL,
  name           TEXT NOT NULL,
  attestation_id INTEGER NOT NULL REFERENCES attestations (id),
  PRIMARY KEY (trail_id, artifact_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  name             TEXT NOT NULL,
  description      TEXT NOT NULL DEFAULT '',
  created_by       TEXT NOT NULL,
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  UNIQUE (organization_id, name)
) STRICT;

-- Immutable. policy_yaml is byte-identical to the upload.
CREATE TABLE policy_versions (
  id          INTEGER PRIMARY KEY,
  policy_id   INTEGER NOT NULL REFERENCES policies (id),
  version     INTEGER NOT NULL CHECK (version > 0),
  comment     TEXT NOT NULL DEFAULT '',
  timestamp   REAL NOT NULL,
  created_by  TEXT NOT NULL,
  policy_yaml TEXT NOT NULL,
  parsed_json TEXT, -- the parsed form of a long text, so that it is not parsed again
  UNIQUE (policy_id, version)
) STRICT;

CREATE TABLE policy_events (
  id        INTEGER PRIMARY KEY,
  policy_id INTEGER NOT NULL REFERENCES policies (id),
  type      TEXT NOT NULL CHECK (type IN ('creation', 'metadata_update', 'new_version', 'renaming', 'archiving')),
  timestamp REAL NOT NULL,
  user_name TEXT NOT NULL,
  data_json TEXT
) STRICT;
CREATE INDEX policy_events_by_policy ON policy_events (policy_id, id);

-- Every change made through the API or the command line, appended in the transaction of the change.
CREATE TABLE audit_log (
  id              INTEGER PRIMARY KEY,
  timestamp       REAL NOT NULL,
  organization_id INTEGER REFERENCES organizations (id),
  actor_kind      TEXT NOT NULL CHECK (actor_kind IN ('user', 'service_account', 'operator')),
  actor_id        TEXT NOT NULL, -- public id; '' for the operator's command line
  actor_name      TEXT NOT NULL,
  key_id          TEXT NOT NULL, -- public id of the key, session:ID for a session; '' for the command line
  operation       TEXT NOT NULL,
  event           TEXT NOT NULL,
  target          TEXT NOT NULL,
  request_id      TEXT NOT NULL,
  detail_json     TEXT
) STRICT;
CREATE INDEX audit_log_by_organization ON audit_log (organization_id, id);
-- The entries that tell what changed. The condition is store/environments/history/audited-changes.ts.
CREATE INDEX audit_log_changes ON audit_log (organization_id, timestamp)
  WHERE event = 'attestation.reported' AND instr(detail_json, '"attestation_type":"override"') > 0
    OR event = 'api_key.created' OR event = 'api_key.rotated' OR event = 'api_key.revoked'
    OR event = 'api_key.lapsed' OR event = 'service_account.created' OR event = 'service_account.deleted'
    OR event = 'flow.applied' OR event = 'flow.archived' OR event = 'flow.renamed' OR event = 'environment.put'
    OR event = 'environment.archived' OR event = 'environment.renamed' OR event = 'environment.joined'
    OR event = 'tags.changed' OR event = 'control.created' OR event = 'control.edited' OR event = 'control.archived'
    OR event = 'control.unarchived';

-- Environments. The columns from last_reported_at on are derived from reports and snapshots, so that lists and
-- unchanged reports read one row. revision rises with every change that a verdict in the environment depends on;
-- checked_revision is the revision at which the latest snapshot was last compared with the facts.
CREATE TABLE environments (
  id                    INTEGER PRIMARY KEY,
  public_id             TEXT NOT NULL UNIQUE,
  organization_id       INTEGER NOT NULL REFERENCES organizations (id),
  name                  TEXT NOT NULL,
  type                  TEXT NOT NULL CHECK (type IN (
    'K8S', 'ECS', 'S3', 'lambda', 'server', 'docker', 'azure-apps', 'cloud-run', 'logical')),
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
  running_digest        TEXT,                       -- SHA-256 over the names and fingerprints of the latest snapshot
  revision              INTEGER NOT NULL DEFAULT 0,
  checked_revision      INTEGER NOT NULL DEFAULT -1,
  UNIQUE (organization_id, name)
) STRICT;
CREATE INDEX environments_by_archived_name ON environments (organization_id, archived_name)
  WHERE archived_name IS NOT NULL;

-- Former names of renamed environments. A row is deleted when another environment takes the name.
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

-- A policy, not a version, is attached; its latest version applies. Ordered by position.
CREATE TABLE environment_policies (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  policy_id      INTEGER NOT NULL REFERENCES policies (id),
  position       INTEGER NOT NULL,
  PRIMARY KEY (environment_id, policy_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX environment_policies_by_policy ON environment_policies (policy_id);

-- Fingerprints that an environment accepts despite its policies. Append-only; the latest entry of a fingerprint counts.
CREATE TABLE allowlist_entries (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  fingerprint     TEXT NOT NULL CHECK (length(fingerprint) = 64),
  artifact_name   TEXT NOT NULL,
  description     TEXT NOT NULL,
  user_id         TEXT NOT NULL, -- public id of the user who allowed it
  user_name       TEXT NOT NULL,
  timestamp       REAL NOT NULL,
  expires_at      REAL -- from then on it does not count; NULL: it does not end
) STRICT;
CREATE INDEX allowlist_entries_by_organization ON allowlist_entries (organization_id, id);
CREATE INDEX allowlist_entries_by_fingerprint ON allowlist_entries (environment_id, fingerprint, id);

-- Ends of allowlist entries that are still to come, one row for each entry that ends and counts. The row is deleted
-- when the entry ended or a newer one took its place. An entry with an end and without a row does not count.
CREATE TABLE allowlist_ends (
  entry_id       INTEGER PRIMARY KEY REFERENCES allowlist_entries (id),
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  fingerprint    TEXT NOT NULL,
  expires_at     REAL NOT NULL,
  warned_at      REAL, -- NULL: no warning was sent
  UNIQUE (environment_id, fingerprint)
) STRICT;
CREATE INDEX allowlist_ends_by_time ON allowlist_ends (environment_id, expires_at);

-- Snapshots, append-only: idx 1, 2, 3, ... without gaps in each environment. Timestamps fall only where
-- snapshot_setbacks has a row. What was running is in snapshot_artifacts (physical) or snapshot_members (logical). The
-- counts exclude what exited.
CREATE TABLE snapshots (
  environment_id       INTEGER NOT NULL REFERENCES environments (id),
  idx                  INTEGER NOT NULL CHECK (idx > 0),
  timestamp            REAL NOT NULL,
  cause                TEXT NOT NULL CHECK (cause IN ('report', 'policies', 'policy_version', 'allowlist', 'member')),
  compliant            INTEGER CHECK (compliant IN (0, 1)), -- NULL: unknown
  compliant_count      INTEGER NOT NULL,
  non_compliant_count  INTEGER NOT NULL,
  unknown_count        INTEGER NOT NULL,
  user_id              TEXT NOT NULL, -- public id of the author of the report or of the change
  user_name            TEXT NOT NULL,
  policy_versions_json TEXT NOT NULL, -- ids of the policy versions evaluated, in the order of attachment
  member_id            INTEGER REFERENCES environments (id), -- of a logical one: the member that caused it
  member_index         INTEGER,
  PRIMARY KEY (environment_id, idx),
  CHECK ((cause = 'member') = (member_id IS NOT NULL AND member_index IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshots_by_time ON snapshots (environment_id, timestamp);
CREATE INDEX snapshots_by_member ON snapshots (member_id, member_index) WHERE member_id IS NOT NULL;

-- Snapshots with an earlier timestamp than the one before them, because the clock had run ahead then. Between two of
-- them timestamps never fall, so the snapshot of a moment is found without reading all of them.
CREATE TABLE snapshot_setbacks (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  idx            INTEGER NOT NULL,
  timestamp      REAL NOT NULL,
  PRIMARY KEY (environment_id, idx)
) STRICT, WITHOUT ROWID;

-- The evaluation of one artifact in one environment, with the facts it is based on: a re-evaluation of facts_json
-- under the named policy versions yields verdicts_json. Write-once; shared by all snapshots for which it holds.
CREATE TABLE evaluations (
  id             INTEGER PRIMARY KEY,
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  compliant      INTEGER CHECK (compliant IN (0, 1)),
  allowlist_id   INTEGER REFERENCES allowlist_entries (id),
  facts_json     TEXT NOT NULL,
  verdicts_json  TEXT NOT NULL,
  reasons_json   TEXT NOT NULL
) STRICT;

-- What ran, as intervals: from snapshot first_index to snapshot last_index an artifact ran with this verdict and these
-- instances; an open interval has the largest safe integer of JSON. annotation, was and now describe the change in
-- first_index; in later snapshots the artifact is unchanged. An artifact that stopped has a last row of one snapshot
-- with annotation 'exited' and now = 0. Rows with an annotation other than 'unchanged' are the events of the
-- environment.
CREATE TABLE snapshot_artifacts (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  first_index     INTEGER NOT NULL,
  last_index      INTEGER NOT NULL DEFAULT 9007199254740991,
  fingerprint     TEXT NOT NULL, -- '': the reporter could not resolve the image
  name            TEXT NOT NULL,
  annotation      TEXT NOT NULL CHECK (annotation IN (
    'started-compliant', 'started-non-compliant', 'started-unknown', 'exited', 'became-compliant',
    'became-non-compliant', 'updated-provenance', 'unchanged', 'started', 'changed', 'scaled')), -- the last three: old data
  was             INTEGER NOT NULL,
  now             INTEGER NOT NULL,
  compliant       INTEGER CHECK (compliant IN (0, 1)),
  evaluation_id   INTEGER NOT NULL REFERENCES evaluations (id),
  started_index   INTEGER NOT NULL, -- the snapshot in which this artifact started
  instances_json  TEXT NOT NULL,
  CHECK (first_index <= last_index AND started_index <= first_index)
) STRICT;
CREATE INDEX snapshot_artifacts_by_snapshot ON snapshot_artifacts
  (environment_id, last_index, first_index, id, now, compliant, name, fingerprint);
CREATE INDEX snapshot_artifacts_events ON snapshot_artifacts
  (environment_id, first_index, id, annotation, was, now, compliant) WHERE annotation <> 'unchanged';
-- Rows that changed something and do not count as events.
CREATE INDEX snapshot_artifacts_others ON snapshot_artifacts (environment_id, first_index)
  WHERE annotation = 'unchanged' AND (was <> now OR compliant IS NULL);
CREATE INDEX snapshot_artifacts_by_fingerprint
  ON snapshot_artifacts (organization_id, fingerprint, environment_id, first_index);
CREATE INDEX snapshot_artifacts_running ON snapshot_artifacts (organization_id, fingerprint, environment_id)
  WHERE last_index = 9007199254740991;

-- The events of an environment by the repositories of the provenance their artifacts had at the time. Derived, for
-- filters.
CREATE TABLE environment_event_repos (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  repo_id        INTEGER NOT NULL REFERENCES repos (id),
  first_index    INTEGER NOT NULL,
  event_id       INTEGER NOT NULL, -- of snapshot_artifacts
  PRIMARY KEY (environment_id, repo_id, first_index, event_id)
) STRICT, WITHOUT ROWID;

-- Running artifacts whose facts changed since their evaluation. The next snapshot re-evaluates them and clears the
-- marks.
CREATE TABLE stale_artifacts (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  fingerprint    TEXT NOT NULL,
  PRIMARY KEY (environment_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- Members of a logical environment in its snapshots, as intervals: from first_index to last_index the member was shown
-- with its own snapshot member_index.
CREATE TABLE snapshot_members (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  member_id      INTEGER NOT NULL REFERENCES environments (id),
  member_index   INTEGER NOT NULL,
  position       INTEGER NOT NULL,
  first_index    INTEGER NOT NULL,
  last_index     INTEGER NOT NULL DEFAULT 9007199254740991,
  PRIMARY KEY (environment_id, last_index, member_id)
) STRICT, WITHOUT ROWID;

-- An artifact with provenance started in an environment: one row for each of its flows at the time. Ordinal 0 is the
-- build flow; those rows are the deployments in lists. replaced_id is what ran before under the same flow and
-- reference name.
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
  replaced_id     INTEGER -- a row of this table; a foreign key would scan the table at every insert
) STRICT;
CREATE INDEX deployments_by_organization ON deployments (organization_id, deployed_at) WHERE ordinal = 0;
CREATE INDEX deployments_by_environment ON deployments (environment_id, deployed_at) WHERE ordinal = 0;
CREATE INDEX deployments_by_fingerprint ON deployments (environment_id, fingerprint, id);
CREATE INDEX deployments_by_slot ON deployments (environment_id, flow_id, reference_name, snapshot_index);
CREATE INDEX deployments_by_flow ON deployments (environment_id, flow_id, deployed_at);
CREATE INDEX deployments_by_repo ON deployments (repo_id, deployed_at) WHERE ordinal = 0 AND repo_id IS NOT NULL;

-- Work that a committed change asks for, inserted in its transaction (outbox). A row is deleted when its work is done;
-- until leased_until it is leased to one worker.
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

-- Tags of repositories and controls: the same shape as those of flows and environments.
CREATE TABLE repo_tags (
  repo_id INTEGER NOT NULL REFERENCES repos (id),
  key     TEXT NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (repo_id, key)
) STRICT, WITHOUT ROWID;

-- Custom attestation types of organizations. Archived ones stay readable and keep their name.
CREATE TABLE custom_types (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  name             TEXT NOT NULL,
  description      TEXT,
  archived_at      REAL,
  created_by       TEXT NOT NULL,
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  UNIQUE (organization_id, name)
) STRICT;

-- Immutable. schema_json is the JSON Schema as one line, rules_json and summary_json are ordered lists of jq
-- expressions.
CREATE TABLE custom_type_versions (
  id           INTEGER PRIMARY KEY,
  type_id      INTEGER NOT NULL REFERENCES custom_types (id),
  version      INTEGER NOT NULL CHECK (version > 0),
  timestamp    REAL NOT NULL,
  created_by   TEXT NOT NULL,
  comment      TEXT,
  schema_json  TEXT,
  content_type TEXT NOT NULL CHECK (content_type IN ('jq', 'default')),
  rules_json   TEXT NOT NULL,
  summary_json TEXT,
  UNIQUE (type_id, version)
) STRICT;

-- Controls. An archived one keeps its identifier for ever. version is that of its latest entry in control_versions.
CREATE TABLE controls (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  identifier       TEXT NOT NULL,
  name             TEXT NOT NULL,
  name_folded      TEXT NOT NULL, -- the case-folded name, for searches
  description      TEXT,
  links_json       TEXT NOT NULL,
  version          INTEGER NOT NULL CHECK (version > 0),
  archived         INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
  created_by       TEXT NOT NULL,
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  UNIQUE (organization_id, identifier)
) STRICT;
CREATE INDEX controls_by_name ON controls (organization_id, archived, name, id);

-- Immutable: the control from then on, and the change that made the version.
CREATE TABLE control_versions (
  id          INTEGER PRIMARY KEY,
  control_id  INTEGER NOT NULL REFERENCES controls (id),
  version     INTEGER NOT NULL CHECK (version > 0),
  status      TEXT NOT NULL CHECK (status IN ('created', 'edited', 'archived', 'unarchived')),
  name        TEXT NOT NULL,
  description TEXT,
  links_json  TEXT NOT NULL,
  timestamp   REAL NOT NULL,
  created_by  TEXT NOT NULL,
  UNIQUE (control_id, version)
) STRICT;

CREATE TABLE control_tags (
  control_id INTEGER NOT NULL REFERENCES controls (id),
  key        TEXT NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (control_id, key)
) STRICT, WITHOUT ROWID;

-- The controls that the rules of a policy version name (for_control). Derived from its text, for coverage.
CREATE TABLE policy_version_controls (
  policy_version_id INTEGER NOT NULL REFERENCES policy_versions (id),
  control_id        INTEGER NOT NULL REFERENCES controls (id),
  PRIMARY KEY (policy_version_id, control_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX policy_version_controls_by_control ON policy_version_controls (control_id);

-- Bundles and inputs of Rego evaluations, compressed. A small one is here, a larger one is a file of evidence storage.
-- A row is written in the transaction of the first record that names it, is never changed, and goes with the last one.
CREATE TABLE rego_documents (
  digest  TEXT NOT NULL PRIMARY KEY CHECK (length(digest) = 64), -- SHA-256 of the compressed bytes, in hex
  size    INTEGER NOT NULL CHECK (size >= 0),                    -- compressed bytes
  content BLOB CHECK (content IS NULL OR (length(content) = size AND size <= 65536)) -- NULL: in evidence storage
) STRICT;
CREATE INDEX rego_documents_in_files ON rego_documents (digest, size) WHERE content IS NULL;

-- Rego policies. An archived one keeps its identifier for ever. version is that of its latest entry in
-- rego_policy_versions.
CREATE TABLE rego_policies (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  identifier       TEXT NOT NULL,
  name             TEXT NOT NULL,
  name_folded      TEXT NOT NULL, -- the case-folded name, for searches
  description      TEXT NOT NULL DEFAULT '',
  version          INTEGER NOT NULL CHECK (version > 0),
  archived         INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
  created_by       TEXT NOT NULL,
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  UNIQUE (organization_id, identifier)
) STRICT;

-- Immutable: a bundle, and what the engine found in it.
CREATE TABLE rego_policy_versions (
  id             INTEGER PRIMARY KEY,
  rego_policy_id INTEGER NOT NULL REFERENCES rego_policies (id),
  version        INTEGER NOT NULL CHECK (version > 0),
  bundle_digest  TEXT NOT NULL REFERENCES rego_documents (digest),
  sha256         TEXT NOT NULL CHECK (length(sha256) = 64), -- of paths and contents, whatever packs them
  files_json     TEXT NOT NULL, -- [{path, size, sha256}]
  package        TEXT NOT NULL,
  outputs_json   TEXT NOT NULL, -- names of rules
  params_json    TEXT,          -- names of parameters; NULL: some are computed
  warnings_json  TEXT NOT NULL,
  comment        TEXT NOT NULL DEFAULT '',
  engine         TEXT NOT NULL,
  created_by     TEXT NOT NULL,
  created_at     REAL NOT NULL,
  UNIQUE (rego_policy_id, version)
) STRICT;
CREATE INDEX rego_policy_versions_by_bundle ON rego_policy_versions (bundle_digest);

-- Evaluations of a Rego policy on trails. What is evaluated is fixed when the row is written; the verdict is added once.
-- The long columns come last: what searches read stands before them.
CREATE TABLE rego_evaluations (
  id                      INTEGER PRIMARY KEY,
  public_id               TEXT NOT NULL UNIQUE,
  organization_id         INTEGER NOT NULL REFERENCES organizations (id),
  status                  TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
  allow                   INTEGER CHECK (allow IN (0, 1)),
  requested_at            REAL NOT NULL, -- the moment of the input
  recorded_at             REAL NOT NULL, -- requested_at until the verdict
  caller                  TEXT NOT NULL, -- public id of the user or service account: callers take turns
  requested_by            TEXT NOT NULL, -- display name of the caller
  request_digest          TEXT NOT NULL, -- SHA-256 of key and body: a repeated request gets the pending evaluation
  rego_policy_version_id  INTEGER REFERENCES rego_policy_versions (id), -- NULL: the request contained the bundle
  bundle_digest           TEXT NOT NULL REFERENCES rego_documents (digest),
  bundle_sha256           TEXT NOT NULL,
  input_digest            TEXT REFERENCES rego_documents (digest), -- NULL: there is no input
  input_sha256            TEXT,          -- of the input document itself
  input_bytes             INTEGER,       -- of the input document itself
  engine                  TEXT,          -- NULL until the verdict
  duration_ms             REAL,
  error_kind              TEXT,
  -- The decision that was asked for: all NULL, or all but decision_fingerprint set.
  decision_name           TEXT,
  decision_flow           TEXT,
  decision_trail          TEXT,
  decision_fingerprint    TEXT,
  decision_control        TEXT,
  decision_attestation_id INTEGER REFERENCES attestations (id) ON DELETE CASCADE,
  decision_error          TEXT,          -- why none was written
  error_message           TEXT,
  actor_json              TEXT NOT NULL, -- the caller, as the audit log records it
  trails_json             TEXT NOT NULL, -- [{flow, trail, moment_number}]
  attestation_ids_json    TEXT NOT NULL, -- public ids of the attestations in the input
  params_json             TEXT NOT NULL,
  violations_json         TEXT,
  outputs_json            TEXT,          -- an object, by rule names
  CHECK ((status = 'completed') = (allow IS NOT NULL) AND (allow IS NULL) = (violations_json IS NULL)
    AND (allow IS NULL) = (outputs_json IS NULL)),
  CHECK ((status = 'failed') = (error_kind IS NOT NULL) AND (error_kind IS NULL) = (error_message IS NULL)),
  CHECK ((input_digest IS NULL) = (input_sha256 IS NULL) AND (input_digest IS NULL) = (input_bytes IS NULL)),
  CHECK (status <> 'pending' OR input_digest IS NOT NULL),
  CHECK (decision_attestation_id IS NULL OR status = 'completed')
) STRICT;
-- All that searches compare, so that counting reads no row.
CREATE INDEX rego_evaluations_by_organization ON rego_evaluations
  (organization_id, id, status, allow, requested_at, rego_policy_version_id, decision_control);
CREATE INDEX rego_evaluations_pending ON rego_evaluations (organization_id, caller) WHERE status = 'pending';
CREATE INDEX rego_evaluations_by_version ON rego_evaluations (rego_policy_version_id, id)
  WHERE rego_policy_version_id IS NOT NULL;
CREATE INDEX rego_evaluations_by_bundle ON rego_evaluations (bundle_digest);
CREATE INDEX rego_evaluations_by_input ON rego_evaluations (input_digest) WHERE input_digest IS NOT NULL;
CREATE INDEX rego_evaluations_by_decision ON rego_evaluations (decision_attestation_id)
  WHERE decision_attestation_id IS NOT NULL;
CREATE INDEX rego_evaluations_to_remove ON rego_evaluations (recorded_at)
  WHERE decision_attestation_id IS NULL AND status <> 'pending';

-- The trails that evaluations read, for searches; rego_evaluations.trails_json says it for good.
CREATE TABLE rego_evaluation_trails (
  evaluation_id INTEGER NOT NULL REFERENCES rego_evaluations (id) ON DELETE CASCADE,
  trail_id      INTEGER NOT NULL REFERENCES trails (id) ON DELETE CASCADE,
  PRIMARY KEY (evaluation_id, trail_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rego_evaluation_trails_by_trail ON rego_evaluation_trails (trail_id, evaluation_id);

CREATE TRIGGER rego_documents_are_final BEFORE UPDATE ON rego_documents
BEGIN
  SELECT raise(ABORT, 'a document of an evaluation is never changed');
END;
-- Files of documents count as evidence, apart from those that attestations name.
CREATE TRIGGER rego_file_came AFTER INSERT ON rego_documents WHEN NEW.content IS NULL
BEGIN
  INSERT INTO evidence_totals (id, files, bytes) VALUES (1, 1, NEW.size)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rego_file_went AFTER DELETE ON rego_documents WHEN OLD.content IS NULL
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.size;
END;
CREATE TRIGGER rego_evaluation_went AFTER DELETE ON rego_evaluations
BEGIN
  DELETE FROM rego_documents WHERE digest IN (OLD.bundle_digest, OLD.input_digest)
    AND NOT EXISTS (SELECT 1 FROM rego_evaluations WHERE bundle_digest = rego_documents.digest)
    AND NOT EXISTS (SELECT 1 FROM rego_evaluations WHERE input_digest = rego_documents.digest)
    AND NOT EXISTS (SELECT 1 FROM rego_policy_versions WHERE bundle_digest = rego_documents.digest);
END;

-- Notification actions. Numbers count up in each organization and are never reused.
CREATE TABLE actions (
  id                  INTEGER PRIMARY KEY,
  organization_id     INTEGER NOT NULL REFERENCES organizations (id),
  number              INTEGER NOT NULL CHECK (number > 0),
  kind                TEXT NOT NULL CHECK (kind IN ('env', 'flow')),
  name                TEXT NOT NULL,
  triggers_json       TEXT NOT NULL, -- in the order in which they were given
  from_chat           INTEGER NOT NULL DEFAULT 0 CHECK (from_chat IN (0, 1)),
  created_by          TEXT NOT NULL,
  created_at          REAL NOT NULL,
  last_modified_at    REAL NOT NULL,
  UNIQUE (organization_id, number),
  UNIQUE (organization_id, name)
) STRICT;

-- The last number given to an action of the organization.
CREATE TABLE action_numbers (
  organization_id INTEGER PRIMARY KEY REFERENCES organizations (id),
  last_number     INTEGER NOT NULL
) STRICT;

CREATE TABLE action_environments (
  action_id      INTEGER NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  position       INTEGER NOT NULL,
  PRIMARY KEY (action_id, environment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX action_environments_by_environment ON action_environments (environment_id);

CREATE TABLE action_flows (
  action_id INTEGER NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
  flow_id   INTEGER NOT NULL REFERENCES flows (id),
  position  INTEGER NOT NULL,
  PRIMARY KEY (action_id, flow_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX action_flows_by_flow ON action_flows (flow_id);

-- Actions with the trigger ON_DAILY_CHANGES. The job of kind daily_changes with the same started_at sends the next
-- message, about what happened after covered_until.
CREATE TABLE daily_changes (
  action_id     INTEGER PRIMARY KEY REFERENCES actions (id) ON DELETE CASCADE,
  started_at    REAL NOT NULL,
  covered_until REAL NOT NULL,
  hour          INTEGER NOT NULL CHECK (hour BETWEEN 0 AND 23), -- on the clocks of the time zone
  time_zone     TEXT NOT NULL
) STRICT;

-- Recipients of messages: of an action, or of a kind of notification that the server itself raises (notification_type).
-- target_json is the configuration as responses show it; type is NULL for an object of a form that is never sent to.
CREATE TABLE notification_targets (
  id                INTEGER PRIMARY KEY,
  organization_id   INTEGER NOT NULL REFERENCES organizations (id),
  action_id         INTEGER REFERENCES actions (id) ON DELETE CASCADE,
  notification_type TEXT,
  position          INTEGER NOT NULL,
  type              TEXT CHECK (type IN ('WEBHOOK', 'SLACK', 'EMAIL')),
  target_json       TEXT NOT NULL,
  secret            TEXT, -- signs messages to a WEBHOOK; made by the server, shown only by the command line
  last_success_at   REAL,
  last_failure_at   REAL,
  last_error        TEXT,
  CHECK ((action_id IS NULL) <> (notification_type IS NULL))
) STRICT;
CREATE INDEX notification_targets_by_action ON notification_targets (action_id) WHERE action_id IS NOT NULL;
CREATE INDEX notification_targets_by_type ON notification_targets (organization_id, notification_type)
  WHERE notification_type IS NOT NULL;

-- Messages to recipients outside (outbox), made by a job of the change they are about, and sent in the order of their
-- ids within a queue (one per target). message_json is the message in the form that its target expects. Dead ones are
-- retried only by the operator.
CREATE TABLE deliveries (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  queue           TEXT NOT NULL,
  target_id       INTEGER REFERENCES notification_targets (id) ON DELETE SET NULL,
  has_target      INTEGER NOT NULL CHECK (has_target IN (0, 1)), -- 1 with target_id NULL: the target was deleted
  subject         TEXT NOT NULL, -- for people: the name of the action, and the event
  type            TEXT NOT NULL CHECK (type IN ('WEBHOOK', 'SLACK', 'EMAIL')),
  target_json     TEXT NOT NULL, -- as configured at the time; for EMAIL the remaining recipients
  message_json    TEXT NOT NULL,
  state           TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead')),
  attempts        INTEGER NOT NULL DEFAULT 0, -- since waiting_since
  created_at      REAL NOT NULL,
  waiting_since   REAL NOT NULL, -- created_at, or the time of the operator's retry
  due_at          REAL NOT NULL,
  finished_at     REAL,
  last_error      TEXT -- of the latest attempt, or why it is dead
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (queue, id) WHERE state = 'waiting';
CREATE INDEX deliveries_by_organization ON deliveries (organization_id, id);
CREATE INDEX deliveries_by_state ON deliveries (state, id);
CREATE INDEX deliveries_by_target ON deliveries (target_id) WHERE target_id IS NOT NULL;
CREATE INDEX deliveries_delivered ON deliveries (finished_at) WHERE state = 'delivered';

-- The queues with waiting messages, and the job of each: one only, so that two workers never send from one queue.
CREATE TABLE delivery_queues (
  queue  TEXT PRIMARY KEY,
  job_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The delivery log: one row for each attempt. status is the HTTP or SMTP status; NULL without a response.
CREATE TABLE delivery_attempts (
  id          INTEGER PRIMARY KEY,
  delivery_id INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
  started_at  REAL NOT NULL,
  seconds     REAL NOT NULL,
  address     TEXT,   -- the IP address that was called; NULL when none was
  status      INTEGER,
  error       TEXT    -- NULL: accepted
) STRICT;
CREATE INDEX delivery_attempts_by_delivery ON delivery_attempts (delivery_id, id);

-- Inbound webhooks of other products. public_id is the unguessable part of the URL; the secret verifies signatures.
CREATE TABLE inbound_webhooks (
  id                 INTEGER PRIMARY KEY,
  public_id          TEXT NOT NULL UNIQUE,
  organization_id    INTEGER NOT NULL REFERENCES organizations (id),
  kind               TEXT NOT NULL CHECK (kind IN ('sonar', 'launch-darkly')),
  secret             TEXT NOT NULL,
  service_account_id INTEGER REFERENCES service_accounts (id) ON DELETE SET NULL, -- NULL: the account is deleted
  settings_json      TEXT NOT NULL,
  created_at         REAL NOT NULL,
  disabled_at        REAL,
  last_received_at   REAL,
  CHECK (service_account_id IS NOT NULL OR disabled_at IS NOT NULL)
) STRICT;
CREATE INDEX inbound_webhooks_by_service_account ON inbound_webhooks (service_account_id)
  WHERE service_account_id IS NOT NULL;
CREATE UNIQUE INDEX inbound_webhooks_in_use ON inbound_webhooks (organization_id, kind) WHERE disabled_at IS NULL;

-- The SHA-256 of every accepted body, so that a replayed call is not recorded twice.
CREATE TABLE inbound_webhook_receipts (
  webhook_id  INTEGER NOT NULL REFERENCES inbound_webhooks (id),
  digest      BLOB NOT NULL CHECK (length(digest) = 32),
  received_at REAL NOT NULL,
  PRIMARY KEY (webhook_id, digest)
) STRICT, WITHOUT ROWID;

-- Logins of people: passwords, sessions, identities at OpenID providers.

-- The scrypt hash of a password with its parameters, which may rise over the years.
CREATE TABLE passwords (
  user_id     INTEGER PRIMARY KEY REFERENCES users (id),
  hash        BLOB NOT NULL CHECK (length(hash) = 32),
  salt        BLOB NOT NULL CHECK (length(salt) = 16),
  cost        INTEGER NOT NULL, -- N
  block_size  INTEGER NOT NULL, -- r
  parallelism INTEGER NOT NULL, -- p
  set_at      REAL NOT NULL
) STRICT;

-- Only the SHA-256 of the cookie is stored. The previous one is kept for two reasons: requests in flight during a
-- rotation are accepted for a moment, and a cookie presented later than that was stolen.
CREATE TABLE sessions (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  digest          BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  previous_digest BLOB UNIQUE CHECK (length(previous_digest) = 32),
  csrf_token      TEXT NOT NULL,
  user_id         INTEGER NOT NULL REFERENCES users (id),
  method          TEXT NOT NULL CHECK (method IN ('password', 'oidc', 'setup')),
  address         TEXT NOT NULL,
  user_agent      TEXT NOT NULL,
  created_at      REAL NOT NULL,
  last_used_at    REAL NOT NULL, -- flushed at intervals
  rotated_at      REAL NOT NULL, -- when the cookie last changed
  idle            REAL NOT NULL, -- seconds without use after which it expires
  expires_at      REAL NOT NULL, -- however much it is used
  ended_at        REAL           -- by a logout, a revocation or a new password
) STRICT;
CREATE INDEX sessions_open ON sessions (user_id, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- Identities of users at OpenID providers. A blocked one cannot log in, and cannot create a second user either.
CREATE TABLE identities (
  issuer     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  created_at REAL NOT NULL,
  blocked_at REAL,
  PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);

-- Retention: rules, legal holds and tombstones.

-- How long trails and the files attached to their records are kept. The rule of a flow replaces that of its
-- organization as a whole. NULL: for ever. Days count from the last event of a trail.
CREATE TABLE retention_rules (
  id                  INTEGER PRIMARY KEY,
  organization_id     INTEGER NOT NULL REFERENCES organizations (id),
  flow_id             INTEGER REFERENCES flows (id), -- NULL: every flow of the organization without its own rule
  trails_after_days   INTEGER CHECK (trails_after_days > 0),
  evidence_after_days INTEGER CHECK (evidence_after_days > 0),
  created_at          REAL NOT NULL,
  last_modified_at    REAL NOT NULL,
  CHECK (evidence_after_days IS NULL OR trails_after_days IS NULL OR evidence_after_days < trails_after_days)
) STRICT;
CREATE UNIQUE INDEX retention_rules_identity ON retention_rules (organization_id, coalesce(flow_id, 0));

-- What must not be deleted despite the rules: an organization, a flow or a trail. Released holds stay in the table. A
-- trail is named by its public id, because its row may be deleted once the hold is released.
CREATE TABLE legal_holds (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  flow_id         INTEGER REFERENCES flows (id), -- NULL: the whole organization
  trail_public_id TEXT,                          -- NULL: the whole flow
  trail_name      TEXT,                          -- its name at the time
  reason          TEXT NOT NULL,
  placed_by       TEXT NOT NULL,
  placed_at       REAL NOT NULL,
  released_by     TEXT,
  released_at     REAL,
  CHECK (trail_public_id IS NULL OR flow_id IS NOT NULL),
  CHECK ((trail_public_id IS NULL) = (trail_name IS NULL)),
  CHECK ((released_by IS NULL) = (released_at IS NULL))
) STRICT;
CREATE INDEX legal_holds_by_organization ON legal_holds (organization_id, id);

-- Runs of `assay retention run`, each of one plan. finished_at is NULL until the plan is complete.
CREATE TABLE retention_runs (
  id          INTEGER PRIMARY KEY,
  public_id   TEXT NOT NULL UNIQUE,
  plan        TEXT NOT NULL UNIQUE, -- the id that `assay retention plan` printed
  started_by  TEXT NOT NULL,
  started_at  REAL NOT NULL,
  finished_at REAL
) STRICT;

-- What was deleted, append-only: a trail with everything on it, or the file attached to a record that stays. digest is
-- the SHA-256 over the records of a trail (store/retention/retention-deletion.ts, recordsDigest), or that of the file.
CREATE TABLE tombstones (
  id                INTEGER PRIMARY KEY,
  run_id            INTEGER NOT NULL REFERENCES retention_runs (id),
  kind              TEXT NOT NULL CHECK (kind IN ('trail', 'evidence')),
  public_id         TEXT NOT NULL, -- of the trail, or of the attestation
  name              TEXT NOT NULL, -- of the trail, or of the attestation
  organization_id   INTEGER NOT NULL REFERENCES organizations (id),
  flow_id           INTEGER NOT NULL REFERENCES flows (id),
  trail_public_id   TEXT NOT NULL,
  digest            TEXT NOT NULL CHECK (length(digest) = 64),
  size              INTEGER,                   -- of a file, in bytes
  filename          TEXT,                      -- of a file
  artifact_count    INTEGER NOT NULL DEFAULT 0, -- counts of a trail
  attestation_count INTEGER NOT NULL DEFAULT 0,
  event_count       INTEGER NOT NULL DEFAULT 0,
  file_count        INTEGER NOT NULL DEFAULT 0,
  fingerprints_json TEXT NOT NULL DEFAULT '[]', -- of a trail: those of its artifacts
  rule              TEXT NOT NULL,             -- in words
  created_at        REAL NOT NULL,             -- of what was deleted
  last_event_at     REAL NOT NULL,             -- of the trail
  deleted_at        REAL NOT NULL,
  UNIQUE (kind, public_id)
) STRICT;
CREATE INDEX tombstones_by_flow ON tombstones (flow_id, id);
CREATE INDEX tombstones_by_organization ON tombstones (organization_id, id);
CREATE INDEX tombstones_by_run ON tombstones (run_id, trail_public_id);
CREATE INDEX tombstones_by_trail ON tombstones (trail_public_id);

-- Evidence storage.

-- The number of distinct files that attestations name, and their total size. Maintained by triggers, so that it is
-- right whatever writes. Files with the same digest have the same size.
CREATE TABLE evidence_totals (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  files INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  in_database       INTEGER NOT NULL DEFAULT 0, -- those of the files whose content is in small_evidence
  bytes_in_database INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TRIGGER evidence_came AFTER INSERT ON attestations WHEN NEW.evidence_digest IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = NEW.evidence_digest AND id <> NEW.id)
BEGIN
  INSERT INTO evidence_totals (id, files, bytes) VALUES (1, 1, NEW.evidence_size)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER evidence_went AFTER DELETE ON attestations WHEN OLD.evidence_digest IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest)
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.evidence_size;
END;
CREATE TRIGGER evidence_changed AFTER UPDATE OF evidence_digest ON attestations
  WHEN OLD.evidence_digest IS NOT NEW.evidence_digest
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.evidence_size
    WHERE OLD.evidence_digest IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest);
  INSERT INTO evidence_totals (id, files, bytes)
    SELECT 1, 1, NEW.evidence_size WHERE NEW.evidence_digest IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = NEW.evidence_digest AND id <> NEW.id)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;

-- The location of evidence: one row at most, written when a server starts and when evidence was moved. No row: the data
-- directory, or no evidence yet.
CREATE TABLE evidence_place (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  place TEXT NOT NULL, -- 'directory': in the data directory; else s3://BUCKET/PREFIX
  since REAL NOT NULL
) STRICT;

-- The content of small evidence files, in the place of a file. A row is written in the transaction of the first
-- attestation that names it, is never changed, and goes with the last attestation that names it.
CREATE TABLE small_evidence (
  digest  TEXT NOT NULL UNIQUE CHECK (length(digest) = 64), -- SHA-256 of content, in hex
  content BLOB NOT NULL CHECK (length(content) <= 65536)
) STRICT;
CREATE TRIGGER small_evidence_came AFTER INSERT ON small_evidence
BEGIN
  INSERT INTO evidence_totals (id, files, bytes, in_database, bytes_in_database) VALUES (1, 0, 0, 1, length(NEW.content))
    ON CONFLICT (id) DO UPDATE SET in_database = in_database + 1,
      bytes_in_database = bytes_in_database + excluded.bytes_in_database;
END;
CREATE TRIGGER small_evidence_gone AFTER DELETE ON small_evidence
BEGIN
  UPDATE evidence_totals SET in_database = in_database - 1,
    bytes_in_database = bytes_in_database - length(OLD.content);
END;
CREATE TRIGGER small_evidence_is_final BEFORE UPDATE ON small_evidence
BEGIN
  SELECT raise(ABORT, 'evidence is never changed');
END;
CREATE TRIGGER small_evidence_is_kept BEFORE DELETE ON small_evidence
  WHEN EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.digest)
BEGIN
  SELECT raise(ABORT, 'an attestation names this evidence');
END;
CREATE TRIGGER small_evidence_went AFTER DELETE ON attestations WHEN OLD.evidence_digest IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest)
BEGIN
  DELETE FROM small_evidence WHERE digest = OLD.evidence_digest;
END;
CREATE TRIGGER small_evidence_left AFTER UPDATE OF evidence_digest ON attestations
  WHEN OLD.evidence_digest IS NOT NULL AND OLD.evidence_digest IS NOT NEW.evidence_digest
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest)
BEGIN
  DELETE FROM small_evidence WHERE digest = OLD.evidence_digest;
END;

-- The clock, one row at most: the last known good time, and the latest forward jump during which something was
-- recorded. is_open: the clock has neither come back since nor turned out to be right.
CREATE TABLE clock (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  good_at   REAL NOT NULL,
  jump_from REAL, -- good_at when the clock jumped; NULL: never
  jump_to   REAL, -- the time of the first change recorded after the jump
  is_open   INTEGER NOT NULL DEFAULT 0 CHECK (is_open IN (0, 1)),
  CHECK ((jump_from IS NULL) = (jump_to IS NULL) AND (is_open = 0 OR jump_to IS NOT NULL))
) STRICT;

-- How many commits the database holds, one row: store/db/commit-number.ts. Every commit raises the number, and the file
-- assay.commits beside the database has the latest one that was acknowledged.
CREATE TABLE commit_number (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  database_id TEXT NOT NULL CHECK (length(database_id) = 32), -- random; a copy gets its own
  number      INTEGER NOT NULL CHECK (number >= 0)
) STRICT;

-- What clients sent that this server does not know, counted. At most 100 rows (store/accounts/unknown-inputs.ts).
CREATE TABLE unknown_inputs (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER REFERENCES organizations (id), -- NULL: the path names none of the client's
  client          TEXT NOT NULL, -- a release of the Kosli CLI, or `other`
  kind            TEXT NOT NULL CHECK (kind IN ('key', 'route', 'attestation_kind')),
  operation       TEXT NOT NULL,
  name            TEXT NOT NULL,
  count           INTEGER NOT NULL,
  first_at        REAL NOT NULL,
  last_at         REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX unknown_inputs_identity
  ON unknown_inputs (coalesce(organization_id, 0), client, kind, operation, name);
CREATE INDEX unknown_inputs_by_organization ON unknown_inputs (organization_id);

-- The SonarQube project that a flow named after a project records, so that two projects never share one. Written with the
-- first scan since; other flows have no row.
CREATE TABLE sonar_flows (
  flow_id     INTEGER PRIMARY KEY REFERENCES flows (id),
  project_key TEXT NOT NULL
) STRICT;
