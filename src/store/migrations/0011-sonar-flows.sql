-- The SonarQube project that a flow named after a project records, so that two projects never share one. Written with the
-- first scan since; other flows have no row.
CREATE TABLE sonar_flows (
  flow_id     INTEGER PRIMARY KEY REFERENCES flows (id),
  project_key TEXT NOT NULL
) STRICT;
