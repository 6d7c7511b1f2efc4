-- Actions with the trigger ON_DAILY_CHANGES: what the latest daily message told about, and the job that sends the next.
CREATE TABLE daily_changes (
  action_id     INTEGER PRIMARY KEY REFERENCES actions (id) ON DELETE CASCADE,
  started_at    REAL NOT NULL,
  covered_until REAL NOT NULL,
  hour          INTEGER NOT NULL CHECK (hour BETWEEN 0 AND 23), -- on the clocks of the time zone
  time_zone     TEXT NOT NULL
) STRICT;

-- With what a list of changes counts, so that it reads no rows: ten thousand events in 3 ms instead of 11.
DROP INDEX snapshot_artifacts_events;
CREATE INDEX snapshot_artifacts_events ON snapshot_artifacts
  (environment_id, first_index, id, annotation, was, now, compliant) WHERE annotation <> 'unchanged';

-- With what a snapshot is counted by.
DROP INDEX snapshot_artifacts_by_snapshot;
CREATE INDEX snapshot_artifacts_by_snapshot ON snapshot_artifacts
  (environment_id, last_index, first_index, id, now, compliant);
