-- What is remembered of the clock, one row at most: the last known good time, and the latest jump ahead under which something
-- was recorded. is_open: the clock neither came back since nor proved to be right.
CREATE TABLE clock (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  good_at   REAL NOT NULL,
  jump_from REAL, -- good_at when the clock jumped; NULL: it never did
  jump_to   REAL, -- what it showed when the first change after that was recorded
  is_open   INTEGER NOT NULL DEFAULT 0 CHECK (is_open IN (0, 1)),
  CHECK ((jump_from IS NULL) = (jump_to IS NULL) AND (is_open = 0 OR jump_to IS NOT NULL))
) STRICT;

-- Snapshots whose time lies before that of the snapshot before them, because that one was made by a clock that ran ahead.
-- Between two of them times never go back: so the snapshot of a moment is found without reading all of them.
CREATE TABLE snapshot_setbacks (
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  idx            INTEGER NOT NULL,
  timestamp      REAL NOT NULL,
  PRIMARY KEY (environment_id, idx)
) STRICT, WITHOUT ROWID;

-- Keys that a rotation replaced, until their grace period is over and their record is closed.
CREATE INDEX api_keys_in_grace ON api_keys (grace_period_expires_at) WHERE revoked_at IS NULL AND grace_period_expires_at IS NOT NULL;
