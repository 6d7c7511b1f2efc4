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
