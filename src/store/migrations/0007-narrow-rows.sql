-- The event of an attestation refers to its record and keeps only what the record does not have. Earlier events stay
-- whole.
ALTER TABLE trail_events ADD COLUMN attestation_id INTEGER;

-- Records of a fingerprint are found by the artifacts that they are bound to.
DROP INDEX attestations_by_fingerprint;

-- How much of the evidence is in the database, not in files.
ALTER TABLE evidence_totals ADD COLUMN in_database INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evidence_totals ADD COLUMN bytes_in_database INTEGER NOT NULL DEFAULT 0;

-- The content of small evidence files, in the place of a file. A row is written in the transaction of the first
-- attestation that names it, is never changed, and goes with the last attestation that names it.
CREATE TABLE small_evidence (
  digest  TEXT NOT NULL UNIQUE CHECK (length(digest) = 64), -- SHA-256 of content, in hex
  content BLOB NOT NULL CHECK (length(content) <= 65536)
) STRICT;
CREATE TRIGGER small_evidence_came AFTER INSERT ON small_evidence
BEGIN
  INSERT INTO evidence_totals (id, files, bytes, in_database, bytes_in_database) VALUES (1, 0, 0, 1, length(NEW.content))
    ON CONFLICT (id) DO UPDATE SET in_database = in_database + 1,
      bytes_in_database = bytes_in_database + excluded.bytes_in_database;
END;
CREATE TRIGGER small_evidence_gone AFTER DELETE ON small_evidence
BEGIN
  UPDATE evidence_totals SET in_database = in_database - 1,
    bytes_in_database = bytes_in_database - length(OLD.content);
END;
CREATE TRIGGER small_evidence_is_final BEFORE UPDATE ON small_evidence
BEGIN
  SELECT raise(ABORT, 'evidence is never changed');
END;
CREATE TRIGGER small_evidence_is_kept BEFORE DELETE ON small_evidence
  WHEN EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.digest)
BEGIN
  SELECT raise(ABORT, 'an attestation names this evidence');
END;
CREATE TRIGGER small_evidence_went AFTER DELETE ON attestations WHEN OLD.evidence_digest IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest)
BEGIN
  DELETE FROM small_evidence WHERE digest = OLD.evidence_digest;
END;
CREATE TRIGGER small_evidence_left AFTER UPDATE OF evidence_digest ON attestations
  WHEN OLD.evidence_digest IS NOT NULL AND OLD.evidence_digest IS NOT NEW.evidence_digest
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest)
BEGIN
  DELETE FROM small_evidence WHERE digest = OLD.evidence_digest;
END;
