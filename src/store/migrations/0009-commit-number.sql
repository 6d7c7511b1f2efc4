-- How many commits the database holds, one row: store/db/commit-number.ts. Every commit raises the number, and the file
-- assay.commits beside the database has the latest one that was acknowledged.
CREATE TABLE commit_number (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  database_id TEXT NOT NULL CHECK (length(database_id) = 32), -- random; a copy gets its own
  number      INTEGER NOT NULL CHECK (number >= 0)
) STRICT;
