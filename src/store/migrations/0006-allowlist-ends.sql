-- Allowlist entries that end.
ALTER TABLE allowlist_entries ADD COLUMN expires_at REAL;

-- The ends that are still to come, one row for each entry that ends and counts. The row goes when the entry ended or a
-- newer one took its place. An entry with an end and without a row does not count.
CREATE TABLE allowlist_ends (
  entry_id       INTEGER PRIMARY KEY REFERENCES allowlist_entries (id),
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  fingerprint    TEXT NOT NULL,
  expires_at     REAL NOT NULL,
  warned_at      REAL,
  UNIQUE (environment_id, fingerprint)
) STRICT;
CREATE INDEX allowlist_ends_by_time ON allowlist_ends (environment_id, expires_at);
