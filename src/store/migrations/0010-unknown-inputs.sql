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
