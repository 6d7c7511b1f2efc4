-- Indexes of the overview of an organization and of the search for names.
CREATE INDEX trails_needing_attention ON trails (organization_id, last_modified_at) WHERE state <> 'COMPLIANT';
CREATE INDEX artifacts_by_name ON artifacts (organization_id, filename COLLATE NOCASE);
