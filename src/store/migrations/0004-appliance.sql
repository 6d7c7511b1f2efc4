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
