-- Corrections of what counts: the latest report of an artifact, and trail-compliance of artifacts without a trail.

-- Reports of a fingerprint to a flow are numbered; the record with the largest number counts. The audit log has every
-- report in the order in which it was accepted; records that were not reported through the API come before all
-- others. A record that is alone keeps number 1.
ALTER TABLE artifacts ADD COLUMN report_number INTEGER NOT NULL DEFAULT 1;
WITH reports (artifact, latest) AS (
  SELECT detail_json ->> 'artifact_id', max(id) FROM audit_log
  WHERE event = 'artifact.reported' AND json_valid(detail_json) GROUP BY 1
), shared (id, flow_id, fingerprint, public_id) AS (
  SELECT a.id, a.flow_id, a.fingerprint, a.public_id
  FROM (SELECT flow_id, fingerprint FROM artifacts GROUP BY flow_id, fingerprint HAVING count(*) > 1) g
    JOIN artifacts a ON a.flow_id = g.flow_id AND a.fingerprint = g.fingerprint
), numbered (id, number) AS (
  SELECT s.id, row_number() OVER (PARTITION BY s.flow_id, s.fingerprint ORDER BY coalesce(r.latest, 0), s.id)
  FROM shared s LEFT JOIN reports r ON r.artifact = s.public_id
)
UPDATE artifacts SET report_number = numbered.number FROM numbered WHERE numbered.id = artifacts.id;
DROP INDEX artifacts_by_flow_fingerprint;
CREATE INDEX artifacts_by_flow_fingerprint ON artifacts (flow_id, fingerprint, report_number);

-- Artifacts without a trail list the attestations that their template expects. Only the names are kept with them: any
-- type.
UPDATE artifacts SET attestations_json = (
  SELECT json_group_array(json_object(
           'attestation_name', name, 'attestation_type', '*', 'attestation_id', NULL, 'overridden_attestation_id', NULL,
           'status', 'MISSING', 'is_compliant', NULL, 'unexpected', json('false')))
  FROM (SELECT value AS name FROM json_each(template_json) WHERE value <> 'artifact' GROUP BY value ORDER BY min(key)))
WHERE trail_id IS NULL AND json_valid(template_json) AND template_json <> '[]';

-- Running artifacts whose evaluation rests on a record that no longer counts, or on one without a trail, are
-- evaluated again with the next report of their environment. Stored verdicts stay as they are and are replayed under
-- the rules that produced them.
INSERT INTO stale_artifacts (environment_id, fingerprint)
  SELECT DISTINCT s.environment_id, s.fingerprint FROM snapshot_artifacts s
  WHERE s.last_index = 9007199254740991 AND EXISTS (
    SELECT 1 FROM artifacts a WHERE a.organization_id = s.organization_id AND a.fingerprint = s.fingerprint
      AND (a.trail_id IS NULL OR EXISTS (
        SELECT 1 FROM artifacts b
        WHERE b.flow_id = a.flow_id AND b.fingerprint = a.fingerprint AND b.id > a.id AND b.report_number < a.report_number)))
  ON CONFLICT DO NOTHING;
UPDATE environments SET revision = revision + 1 WHERE id IN (SELECT environment_id FROM stale_artifacts);

-- What runs in place of an artifact that exited is found by the snapshot in which it started.
DROP INDEX deployments_by_slot;
CREATE INDEX deployments_by_slot ON deployments (environment_id, flow_id, reference_name, snapshot_index);

-- Large templates and policies are read once: what they say is stored beside their text. Up to 8 KB reading is as quick.
ALTER TABLE templates ADD COLUMN parsed_json TEXT;
ALTER TABLE policy_versions ADD COLUMN parsed_json TEXT;
UPDATE templates SET parsed_json = assay_parsed_template(content) WHERE octet_length(content) > 8192;
UPDATE policy_versions SET parsed_json = assay_parsed_policy(policy_yaml) WHERE octet_length(policy_yaml) > 8192;

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
