-- Artifacts that are not compliant, for lists by state. Most are compliant and not in it.
CREATE INDEX artifacts_unfinished ON artifacts (organization_id, state, id, flow_id, repo_id, filename)
  WHERE state <> 'COMPLIANT';
