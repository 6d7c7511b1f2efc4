-- What the appliance needs beside the API: logins, retention, where evidence is kept.

-- Logins of people: passwords, sessions, identities at OpenID providers.

-- scrypt of the password, with the parameters that it was made with: they may rise with the years.
CREATE TABLE passwords (
  user_id     INTEGER PRIMARY KEY REFERENCES users (id),
  hash        BLOB NOT NULL CHECK (length(hash) = 32),
  salt        BLOB NOT NULL CHECK (length(salt) = 16),
  cost        INTEGER NOT NULL, -- N
  block_size  INTEGER NOT NULL, -- r
  parallelism INTEGER NOT NULL, -- p
  set_at      REAL NOT NULL
) STRICT;

-- Only the SHA-256 of the cookie is kept. The one before the latest change of the cookie is known for two reasons: requests that
-- were on their way are let in for a moment, and whoever comes with it later has somebody else's.
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
  last_used_at    REAL NOT NULL, -- written every now and then
  rotated_at      REAL NOT NULL, -- when the cookie got its present value
  idle            REAL NOT NULL, -- seconds without use that end it
  expires_at      REAL NOT NULL, -- ends it in any case
  ended_at        REAL           -- by a logout, a revocation, another password
) STRICT;
CREATE INDEX sessions_open ON sessions (user_id, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- Who a person is at an OpenID provider. A blocked one cannot log in, and makes no second user either.
CREATE TABLE identities (
  issuer     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  created_at REAL NOT NULL,
  blocked_at REAL,
  PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_by_user ON identities (user_id);

-- Groups of an OpenID provider give memberships too.
ALTER TABLE membership_events RENAME TO earlier_membership_events;
CREATE TABLE membership_events (
  id              INTEGER PRIMARY KEY,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  timestamp       REAL NOT NULL,
  event_type      TEXT NOT NULL CHECK (event_type IN ('added', 'changed', 'removed')),
  user_name       TEXT NOT NULL,
  user_shown      TEXT NOT NULL,
  role            TEXT,
  previous_role   TEXT,
  changed_by      TEXT NOT NULL,
  source          TEXT NOT NULL CHECK (source IN ('app', 'scim', 'invitation', 'script', 'oidc')),
  search_text     TEXT NOT NULL
) STRICT;
INSERT INTO membership_events (id, organization_id, timestamp, event_type, user_name, user_shown, role, previous_role, changed_by, source, search_text)
SELECT id, organization_id, timestamp, event_type, user_name, user_shown, role, previous_role, changed_by, source, search_text
FROM earlier_membership_events;
DROP TABLE earlier_membership_events;
CREATE INDEX membership_events_by_organization ON membership_events (organization_id, timestamp);
CREATE INDEX membership_events_by_user ON membership_events (organization_id, user_shown COLLATE NOCASE);
CREATE INDEX membership_events_by_role ON membership_events (organization_id, role);
CREATE INDEX membership_events_by_actor ON membership_events (organization_id, changed_by COLLATE NOCASE);
CREATE INDEX membership_events_by_source ON membership_events (organization_id, source);

-- Retention: rules, legal holds, and what was deleted under them.

-- How long trails are kept, and the files attached to their records. The rule of a flow stands in place of the one of its
-- organization, as a whole. NULL: kept for ever. Days count from the last thing that happened to a trail.
CREATE TABLE retention_rules (
  id                  INTEGER PRIMARY KEY,
  organization_id     INTEGER NOT NULL REFERENCES organizations (id),
  flow_id             INTEGER REFERENCES flows (id), -- NULL: all flows of the organization without a rule of their own
  trails_after_days   INTEGER CHECK (trails_after_days > 0),
  evidence_after_days INTEGER CHECK (evidence_after_days > 0),
  created_at          REAL NOT NULL,
  last_modified_at    REAL NOT NULL,
  CHECK (evidence_after_days IS NULL OR trails_after_days IS NULL OR evidence_after_days < trails_after_days)
) STRICT;
CREATE UNIQUE INDEX retention_rules_identity ON retention_rules (organization_id, coalesce(flow_id, 0));

-- What nobody may delete, whatever the rules say: an organization, a flow of it, or one trail. A released hold stays here.
-- The trail is named by its public id, because the row may be deleted once the hold is released.
CREATE TABLE legal_holds (
  id              INTEGER PRIMARY KEY,
  public_id       TEXT NOT NULL UNIQUE,
  organization_id INTEGER NOT NULL REFERENCES organizations (id),
  flow_id         INTEGER REFERENCES flows (id), -- NULL: the whole organization
  trail_public_id TEXT,                          -- NULL: the whole flow
  trail_name      TEXT,                          -- as it was called
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

-- Runs of assay retention run, each of one plan. finished_at is NULL while something of the plan is left.
CREATE TABLE retention_runs (
  id          INTEGER PRIMARY KEY,
  public_id   TEXT NOT NULL UNIQUE,
  plan        TEXT NOT NULL UNIQUE, -- what assay retention plan printed
  started_by  TEXT NOT NULL,
  started_at  REAL NOT NULL,
  finished_at REAL
) STRICT;

-- What was deleted, append-only: a trail with everything on it, or the file attached to a record that stays. digest is, of a trail,
-- the SHA-256 over its records (store/retention.ts, recordsDigest), and of a file its own. Times in epoch seconds.
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
  artifact_count    INTEGER NOT NULL DEFAULT 0, -- of a trail: what it had
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

-- Where evidence is kept.

-- Evidence, counted: contents that attestations name, each once, and their bytes. Kept by triggers, so that it is true whoever writes; a
-- content has one size, because it is named by its digest.
CREATE TABLE evidence_totals (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  files INTEGER NOT NULL,
  bytes INTEGER NOT NULL
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
CREATE TRIGGER evidence_changed AFTER UPDATE OF evidence_digest ON attestations WHEN OLD.evidence_digest IS NOT NEW.evidence_digest
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.evidence_size
    WHERE OLD.evidence_digest IS NOT NULL AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest);
  INSERT INTO evidence_totals (id, files, bytes)
    SELECT 1, 1, NEW.evidence_size WHERE NEW.evidence_digest IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = NEW.evidence_digest AND id <> NEW.id)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
INSERT INTO evidence_totals (id, files, bytes)
  SELECT 1, count(*), coalesce(sum(size), 0)
    FROM (SELECT max(evidence_size) AS size FROM attestations WHERE evidence_digest IS NOT NULL GROUP BY evidence_digest);

-- One row at most, written when a server starts and when a migration ends; none: in the data directory, or nowhere yet.
CREATE TABLE evidence_place (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  place TEXT NOT NULL, -- 'directory': in the data directory; else s3://BUCKET/PREFIX
  since REAL NOT NULL
) STRICT;
