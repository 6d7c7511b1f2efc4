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

-- Counts and lists the trails of a flow that need attention; most trails are compliant and not in it.
CREATE INDEX trails_unfinished ON trails (flow_id, state, id) WHERE state <> 'COMPLIANT';

-- The overview of an organization, and the search for names.
CREATE INDEX trails_needing_attention ON trails (organization_id, last_modified_at) WHERE state <> 'COMPLIANT';
CREATE INDEX artifacts_by_name ON artifacts (organization_id, filename COLLATE NOCASE);
