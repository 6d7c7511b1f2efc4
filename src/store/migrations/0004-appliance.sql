-- What the appliance needs beside the API: logins, retention, where evidence is kept.

-- Logins of people: passwords, sessions, identities at OpenID providers.

-- Retention: rules, legal holds, and what was deleted under them.

-- Where evidence is kept.

-- Evidence, counted: contents that attestations name, each once, and their bytes. Kept by triggers, so that it is true whoever writes; a
-- content has one size, because it is named by its digest.
CREATE TABLE evidence_totals (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  files INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
CREATE TRIGGER evidence_came AFTER INSERT ON attestations WHEN NEW.evidence_digest IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = NEW.evidence_digest AND id <> NEW.id)
BEGIN
  INSERT INTO evidence_totals (id, files, bytes) VALUES (1, 1, NEW.evidence_size)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER evidence_went AFTER DELETE ON attestations WHEN OLD.evidence_digest IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest)
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.evidence_size;
END;
CREATE TRIGGER evidence_changed AFTER UPDATE OF evidence_digest ON attestations WHEN OLD.evidence_digest IS NOT NEW.evidence_digest
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.evidence_size
    WHERE OLD.evidence_digest IS NOT NULL AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = OLD.evidence_digest);
  INSERT INTO evidence_totals (id, files, bytes)
    SELECT 1, 1, NEW.evidence_size WHERE NEW.evidence_digest IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = NEW.evidence_digest AND id <> NEW.id)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
INSERT INTO evidence_totals (id, files, bytes)
  SELECT 1, count(*), coalesce(sum(size), 0)
    FROM (SELECT max(evidence_size) AS size FROM attestations WHERE evidence_digest IS NOT NULL GROUP BY evidence_digest);
