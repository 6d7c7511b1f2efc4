-- What runs of a repository: its own records are searched instead of those of the organization. The index of
-- fingerprints no longer needs the repository.
DROP INDEX artifacts_by_fingerprint;
CREATE INDEX artifacts_by_fingerprint ON artifacts (organization_id, fingerprint, id);
CREATE INDEX artifacts_by_repo_fingerprint ON artifacts (repo_id, fingerprint, id) WHERE repo_id IS NOT NULL;
