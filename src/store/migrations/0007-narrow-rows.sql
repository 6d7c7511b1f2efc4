-- The event of an attestation refers to its record and keeps only what the record does not have. Earlier events stay
-- whole.
ALTER TABLE trail_events ADD COLUMN attestation_id INTEGER;

-- Records of a fingerprint are found by the artifacts that they are bound to.
DROP INDEX attestations_by_fingerprint;
