-- Tags of repositories and controls: the same shape as those of flows and environments.
CREATE TABLE repo_tags (
  repo_id INTEGER NOT NULL REFERENCES repos (id),
  key     TEXT NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (repo_id, key)
) STRICT, WITHOUT ROWID;

-- Types of attestations that organizations make for themselves. Archived ones stay readable and keep their name.
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

-- Immutable. schema_json is the JSON Schema as one line, rules_json and summary_json are ordered lists of jq expressions.
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
  name_folded      TEXT NOT NULL, -- the name without the difference of cases: what a search looks in
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

-- Immutable: what a control said from then on, and why there is a new version.
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

-- Which controls the rules of a policy version name (for_control): derived from its text, for coverage.
CREATE TABLE policy_version_controls (
  policy_version_id INTEGER NOT NULL REFERENCES policy_versions (id),
  control_id        INTEGER NOT NULL REFERENCES controls (id),
  PRIMARY KEY (policy_version_id, control_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX policy_version_controls_by_control ON policy_version_controls (control_id);

-- Rules about whom to tell of what. Numbers count up in each organization and are never given twice.
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

-- Where messages go: of an action, or of a kind of notification that the server itself raises (notification_type). target_json
-- is what was configured, as answers show it; type is NULL for an object of a form that nothing is ever sent to.
CREATE TABLE notification_targets (
  id                INTEGER PRIMARY KEY,
  organization_id   INTEGER NOT NULL REFERENCES organizations (id),
  action_id         INTEGER REFERENCES actions (id) ON DELETE CASCADE,
  notification_type TEXT,
  position          INTEGER NOT NULL,
  type              TEXT CHECK (type IN ('WEBHOOK', 'SLACK', 'EMAIL')),
  target_json       TEXT NOT NULL,
  secret            TEXT, -- signs what is sent to a WEBHOOK; made up by the server, shown by the command line only
  last_success_at   REAL,
  last_failure_at   REAL,
  last_error        TEXT,
  CHECK ((action_id IS NULL) <> (notification_type IS NULL))
) STRICT;
CREATE INDEX notification_targets_by_action ON notification_targets (action_id) WHERE action_id IS NOT NULL;
CREATE INDEX notification_targets_by_type ON notification_targets (organization_id, notification_type) WHERE notification_type IS NOT NULL;

-- Messages to somebody outside (outbox), made by the job that the change which they tell of asked for, sent in the order of their
-- ids within a queue (one per target). message_json is what is sent, in the form that its target wants. The dead are not sent
-- any more, unless the operator says so.
CREATE TABLE deliveries (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  queue           TEXT NOT NULL,
  target_id       INTEGER REFERENCES notification_targets (id) ON DELETE SET NULL,
  has_target      INTEGER NOT NULL CHECK (has_target IN (0, 1)), -- 1 with target_id NULL: the target was deleted
  subject         TEXT NOT NULL, -- what it is about, for people: the name of the action, and the event
  type            TEXT NOT NULL CHECK (type IN ('WEBHOOK', 'SLACK', 'EMAIL')),
  target_json     TEXT NOT NULL, -- where it goes, as configured when the event happened; of EMAIL the recipients that are left
  message_json    TEXT NOT NULL,
  state           TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead')),
  attempts        INTEGER NOT NULL DEFAULT 0, -- since waiting_since
  created_at      REAL NOT NULL,
  waiting_since   REAL NOT NULL, -- created_at, or when the operator had it tried again
  due_at          REAL NOT NULL,
  finished_at     REAL,
  last_error      TEXT -- why it is dead, or why the latest attempt failed
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (queue, id) WHERE state = 'waiting';
CREATE INDEX deliveries_by_organization ON deliveries (organization_id, id);
CREATE INDEX deliveries_by_state ON deliveries (state, id);
CREATE INDEX deliveries_by_target ON deliveries (target_id) WHERE target_id IS NOT NULL;
CREATE INDEX deliveries_delivered ON deliveries (finished_at) WHERE state = 'delivered';

-- The queues in which something waits, and the job that sends it: one for each, so that two never send out of one queue.
CREATE TABLE delivery_queues (
  queue  TEXT PRIMARY KEY,
  job_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The delivery log: one row for each attempt. status is the HTTP or SMTP status, NULL when there was no answer.
CREATE TABLE delivery_attempts (
  id          INTEGER PRIMARY KEY,
  delivery_id INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
  started_at  REAL NOT NULL,
  seconds     REAL NOT NULL,
  address     TEXT,   -- the IP address that was called, NULL when none was
  status      INTEGER,
  error       TEXT    -- NULL: accepted
) STRICT;
CREATE INDEX delivery_attempts_by_delivery ON delivery_attempts (delivery_id, id);

-- Doors for the webhooks of other products. public_id is the unguessable part of the address; the secret checks signatures.
CREATE TABLE inbound_webhooks (
  id                 INTEGER PRIMARY KEY,
  public_id          TEXT NOT NULL UNIQUE,
  organization_id    INTEGER NOT NULL REFERENCES organizations (id),
  kind               TEXT NOT NULL CHECK (kind IN ('sonar', 'launch-darkly')),
  secret             TEXT NOT NULL,
  service_account_id INTEGER REFERENCES service_accounts (id) ON DELETE SET NULL, -- NULL: disabled, and the account is gone
  settings_json      TEXT NOT NULL,
  created_at         REAL NOT NULL,
  disabled_at        REAL,
  last_received_at   REAL,
  CHECK (service_account_id IS NOT NULL OR disabled_at IS NOT NULL)
) STRICT;
CREATE INDEX inbound_webhooks_by_service_account ON inbound_webhooks (service_account_id) WHERE service_account_id IS NOT NULL;
CREATE UNIQUE INDEX inbound_webhooks_in_use ON inbound_webhooks (organization_id, kind) WHERE disabled_at IS NULL;

-- What came through a door, by the SHA-256 of the body: nothing is recorded twice, however often it is sent.
CREATE TABLE inbound_webhook_receipts (
  webhook_id  INTEGER NOT NULL REFERENCES inbound_webhooks (id),
  digest      BLOB NOT NULL CHECK (length(digest) = 32),
  received_at REAL NOT NULL,
  PRIMARY KEY (webhook_id, digest)
) STRICT, WITHOUT ROWID;

-- Of a record of a custom type: the version of the type that judged it.
ALTER TABLE attestations ADD COLUMN type_version INTEGER;
CREATE INDEX attestations_by_control ON attestations (organization_id, control, id, created_at, is_compliant, flow_id) WHERE control IS NOT NULL;
CREATE INDEX artifacts_by_organization_commit ON artifacts (organization_id, git_commit, id);

-- The history of memberships gets the name that people saw, and a column to search in.
ALTER TABLE membership_events RENAME TO earlier_membership_events;
CREATE TABLE membership_events (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  timestamp       REAL NOT NULL,
  event_type      TEXT NOT NULL CHECK (event_type IN ('added', 'changed', 'removed')),
  user_name       TEXT NOT NULL, -- the login name
  user_shown      TEXT NOT NULL, -- the name that people saw then
  role            TEXT,          -- the new one, NULL for somebody who was removed
  previous_role   TEXT,
  changed_by      TEXT NOT NULL,
  source          TEXT NOT NULL CHECK (source IN ('app', 'scim', 'invitation', 'script')),
  search_text     TEXT NOT NULL  -- all names, in lower case
) STRICT;
INSERT INTO membership_events (id, organization_id, timestamp, event_type, user_name, user_shown, role, previous_role, changed_by, source, search_text)
SELECT e.id, e.organization_id, e.timestamp, e.event_type, e.user_name, coalesce(nullif(u.display_name, ''), e.user_name), e.role, e.previous_role,
       e.changed_by, e.source, lower(e.user_name || char(10) || coalesce(u.display_name, '') || char(10) || e.changed_by)
FROM earlier_membership_events e LEFT JOIN users u ON u.name = e.user_name;
DROP TABLE earlier_membership_events;
CREATE INDEX membership_events_by_organization ON membership_events (organization_id, timestamp);
CREATE INDEX membership_events_by_user ON membership_events (organization_id, user_shown COLLATE NOCASE);
CREATE INDEX membership_events_by_role ON membership_events (organization_id, role);
CREATE INDEX membership_events_by_actor ON membership_events (organization_id, changed_by COLLATE NOCASE);
CREATE INDEX membership_events_by_source ON membership_events (organization_id, source);

ALTER TABLE api_keys ADD COLUMN replaced_by TEXT;

-- Repositories: what lists filter by. Derived from what reports told; each further report derives it again, more exactly than
-- SQL can (domain/repository.ts).
ALTER TABLE repos ADD COLUMN search_name TEXT NOT NULL DEFAULT '';
ALTER TABLE repos ADD COLUMN vcs_instance TEXT NOT NULL DEFAULT '';
ALTER TABLE repos ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
ALTER TABLE repos ADD COLUMN latest_activity_at REAL NOT NULL DEFAULT 0;
UPDATE repos SET
  search_name = lower(name),
  vcs_instance = (
    SELECT lower(substr(authority, instr(authority, '@') + 1)) FROM (
      SELECT substr(rest, 1, instr(rest, '/') - 1) AS authority FROM (
        SELECT replace(replace(substr(repos.url, instr(repos.url, '://') + 3), '?', '/'), '#', '/') || '/' AS rest))),
  namespace = trim(coalesce(
    (SELECT group_concat(value, '/') FROM json_each(iif(json_valid(repos.namespace_path_json), repos.namespace_path_json, '[]')) WHERE value <> ''),
    rtrim(name, replace(name, '/', ''))), '/'),
  latest_activity_at = max(last_modified_at, coalesce((SELECT a.last_modified_at FROM artifacts a WHERE a.repo_id = repos.id ORDER BY a.id DESC LIMIT 1), 0));
DROP INDEX repos_by_name;
CREATE INDEX repos_listed ON repos (organization_id, name, id, search_name, provider, vcs_instance, namespace);

-- Which repositories a fingerprint comes from is told by the index alone.
DROP INDEX artifacts_by_fingerprint;
CREATE INDEX artifacts_by_fingerprint ON artifacts (organization_id, fingerprint, id, repo_id);

-- Builds: the first record of each fingerprint in an organization. Derived, written with that record.
CREATE TABLE builds (
  artifact_id     INTEGER PRIMARY KEY REFERENCES artifacts (id),
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  repo_id         INTEGER REFERENCES repos (id),
  created_at      REAL NOT NULL
) STRICT;
INSERT INTO builds (artifact_id, organization_id, repo_id, created_at)
SELECT a.id, a.organization_id, a.repo_id, a.created_at
FROM (SELECT min(id) AS id FROM artifacts GROUP BY organization_id, fingerprint) AS first JOIN artifacts AS a ON a.id = first.id;
CREATE INDEX builds_by_organization ON builds (organization_id, created_at);
CREATE INDEX builds_by_repo ON builds (repo_id, created_at) WHERE repo_id IS NOT NULL;

-- Records of one flow, name, kind and verdict. Derived from the records in the write that appends each: a search finds the few
-- series that fit, and in them the records, without looking at all the others.
CREATE TABLE attestation_series (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  flow_id         INTEGER NOT NULL REFERENCES flows (id),
  name            TEXT NOT NULL,
  type            TEXT NOT NULL,
  overridden_type TEXT NOT NULL, -- '': no overrides
  is_compliant    INTEGER NOT NULL CHECK (is_compliant IN (0, 1)),
  UNIQUE (flow_id, name, type, overridden_type, is_compliant)
) STRICT;
CREATE INDEX attestation_series_by_name ON attestation_series (organization_id, name, is_compliant);
CREATE INDEX attestation_series_by_type ON attestation_series (organization_id, type, is_compliant);
CREATE INDEX attestation_series_by_overridden_type ON attestation_series (organization_id, overridden_type, is_compliant);
CREATE INDEX attestation_series_by_verdict ON attestation_series (organization_id, is_compliant);

CREATE TABLE attestation_series_records (
  series_id      INTEGER NOT NULL REFERENCES attestation_series (id),
  created_at     REAL NOT NULL,
  attestation_id INTEGER NOT NULL REFERENCES attestations (id),
  PRIMARY KEY (series_id, created_at, attestation_id)
) STRICT, WITHOUT ROWID;

INSERT INTO attestation_series (organization_id, flow_id, name, type, overridden_type, is_compliant)
  SELECT DISTINCT organization_id, flow_id, name, type, coalesce(overridden_type, ''), is_compliant FROM attestations;
INSERT INTO attestation_series_records (series_id, created_at, attestation_id)
  SELECT s.id, a.created_at, a.id FROM attestations a JOIN attestation_series s
    ON s.flow_id = a.flow_id AND s.name = a.name AND s.type = a.type AND s.overridden_type = coalesce(a.overridden_type, '') AND s.is_compliant = a.is_compliant;

-- Lists are in the order of time, and filtered by it.
DROP INDEX attestations_by_name;
DROP INDEX attestations_by_organization;
DROP INDEX attestations_by_flow;
CREATE INDEX attestations_by_organization ON attestations (organization_id, created_at, id);
CREATE INDEX attestations_by_flow ON attestations (flow_id, created_at, id);

-- Public id of the user who made it, NULL for the operator.
ALTER TABLE api_keys ADD COLUMN creating_user_id TEXT;
CREATE INDEX api_keys_by_end ON api_keys (expires_at) WHERE revoked_at IS NULL AND grace_period_expires_at IS NULL AND expires_at > 0;

-- The warnings that a key is about to end: so many days before that end.
CREATE TABLE api_key_warnings (
  key_id     INTEGER NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  expires_at REAL NOT NULL,
  days       INTEGER NOT NULL,
  warned_at  REAL NOT NULL,
  PRIMARY KEY (key_id, expires_at, days)
) STRICT, WITHOUT ROWID;

-- How many trails a flow has: lists of trails tell the number of all, and counting a hundred thousand takes milliseconds.
ALTER TABLE flows ADD COLUMN trail_count INTEGER NOT NULL DEFAULT 0;
UPDATE flows SET trail_count = (SELECT count(*) FROM trails WHERE flow_id = flows.id);
