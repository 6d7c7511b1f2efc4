-- Settings of Rego evaluations.
ALTER TABLE organizations ADD COLUMN evaluations_enabled INTEGER NOT NULL DEFAULT 1
  CHECK (evaluations_enabled IN (0, 1));
ALTER TABLE organizations ADD COLUMN decisions_need_published_policy INTEGER NOT NULL DEFAULT 0
  CHECK (decisions_need_published_policy IN (0, 1));

-- Bundles and inputs of Rego evaluations, compressed. A small one is here, a larger one is a file of evidence storage.
-- A row is written in the transaction of the first record that names it, is never changed, and goes with the last one.
CREATE TABLE rego_documents (
  digest  TEXT NOT NULL PRIMARY KEY CHECK (length(digest) = 64), -- SHA-256 of the compressed bytes, in hex
  size    INTEGER NOT NULL CHECK (size >= 0),                    -- compressed bytes
  content BLOB CHECK (content IS NULL OR (length(content) = size AND size <= 65536)) -- NULL: in evidence storage
) STRICT;
CREATE INDEX rego_documents_in_files ON rego_documents (digest, size) WHERE content IS NULL;

-- Rego policies. An archived one keeps its identifier for ever. version is that of its latest entry in
-- rego_policy_versions.
CREATE TABLE rego_policies (
  id               INTEGER PRIMARY KEY,
  public_id        TEXT NOT NULL UNIQUE,
  organization_id  INTEGER NOT NULL REFERENCES organizations (id),
  identifier       TEXT NOT NULL,
  name             TEXT NOT NULL,
  name_folded      TEXT NOT NULL, -- the case-folded name, for searches
  description      TEXT NOT NULL DEFAULT '',
  version          INTEGER NOT NULL CHECK (version > 0),
  archived         INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
  created_by       TEXT NOT NULL,
  created_at       REAL NOT NULL,
  last_modified_at REAL NOT NULL,
  UNIQUE (organization_id, identifier)
) STRICT;

-- Immutable: a bundle, and what the engine found in it.
CREATE TABLE rego_policy_versions (
  id             INTEGER PRIMARY KEY,
  rego_policy_id INTEGER NOT NULL REFERENCES rego_policies (id),
  version        INTEGER NOT NULL CHECK (version > 0),
  bundle_digest  TEXT NOT NULL REFERENCES rego_documents (digest),
  sha256         TEXT NOT NULL CHECK (length(sha256) = 64), -- of paths and contents, whatever packs them
  files_json     TEXT NOT NULL, -- [{path, size, sha256}]
  package        TEXT NOT NULL,
  outputs_json   TEXT NOT NULL, -- names of rules
  params_json    TEXT,          -- names of parameters; NULL: some are computed
  warnings_json  TEXT NOT NULL,
  comment        TEXT NOT NULL DEFAULT '',
  engine         TEXT NOT NULL,
  created_by     TEXT NOT NULL,
  created_at     REAL NOT NULL,
  UNIQUE (rego_policy_id, version)
) STRICT;
CREATE INDEX rego_policy_versions_by_bundle ON rego_policy_versions (bundle_digest);

-- Evaluations of a Rego policy on trails. What is evaluated is fixed when the row is written; the verdict is added once.
-- The long columns come last: what searches read stands before them.
CREATE TABLE rego_evaluations (
  id                      INTEGER PRIMARY KEY,
  public_id               TEXT NOT NULL UNIQUE,
  organization_id         INTEGER NOT NULL REFERENCES organizations (id),
  status                  TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
  allow                   INTEGER CHECK (allow IN (0, 1)),
  requested_at            REAL NOT NULL, -- the moment of the input
  recorded_at             REAL NOT NULL, -- requested_at until the verdict
  caller                  TEXT NOT NULL, -- public id of the user or service account: callers take turns
  requested_by            TEXT NOT NULL, -- display name of the caller
  request_digest          TEXT NOT NULL, -- SHA-256 of key and body: a repeated request gets the pending evaluation
  rego_policy_version_id  INTEGER REFERENCES rego_policy_versions (id), -- NULL: the request contained the bundle
  bundle_digest           TEXT NOT NULL REFERENCES rego_documents (digest),
  bundle_sha256           TEXT NOT NULL,
  input_digest            TEXT REFERENCES rego_documents (digest), -- NULL: there is no input
  input_sha256            TEXT,          -- of the input document itself
  input_bytes             INTEGER,       -- of the input document itself
  engine                  TEXT,          -- NULL until the verdict
  duration_ms             REAL,
  error_kind              TEXT,
  -- The decision that was asked for: all NULL, or all but decision_fingerprint set.
  decision_name           TEXT,
  decision_flow           TEXT,
  decision_trail          TEXT,
  decision_fingerprint    TEXT,
  decision_control        TEXT,
  decision_attestation_id INTEGER REFERENCES attestations (id) ON DELETE CASCADE,
  decision_error          TEXT,          -- why none was written
  error_message           TEXT,
  actor_json              TEXT NOT NULL, -- the caller, as the audit log records it
  trails_json             TEXT NOT NULL, -- [{flow, trail, moment_number}]
  attestation_ids_json    TEXT NOT NULL, -- public ids of the attestations in the input
  params_json             TEXT NOT NULL,
  violations_json         TEXT,
  outputs_json            TEXT,          -- an object, by rule names
  CHECK ((status = 'completed') = (allow IS NOT NULL) AND (allow IS NULL) = (violations_json IS NULL)
    AND (allow IS NULL) = (outputs_json IS NULL)),
  CHECK ((status = 'failed') = (error_kind IS NOT NULL) AND (error_kind IS NULL) = (error_message IS NULL)),
  CHECK ((input_digest IS NULL) = (input_sha256 IS NULL) AND (input_digest IS NULL) = (input_bytes IS NULL)),
  CHECK (status <> 'pending' OR input_digest IS NOT NULL),
  CHECK (decision_attestation_id IS NULL OR status = 'completed')
) STRICT;
-- All that searches compare, so that counting reads no row.
CREATE INDEX rego_evaluations_by_organization ON rego_evaluations
  (organization_id, id, status, allow, requested_at, rego_policy_version_id, decision_control);
CREATE INDEX rego_evaluations_pending ON rego_evaluations (organization_id, caller) WHERE status = 'pending';
CREATE INDEX rego_evaluations_by_version ON rego_evaluations (rego_policy_version_id, id)
  WHERE rego_policy_version_id IS NOT NULL;
CREATE INDEX rego_evaluations_by_bundle ON rego_evaluations (bundle_digest);
CREATE INDEX rego_evaluations_by_input ON rego_evaluations (input_digest) WHERE input_digest IS NOT NULL;
CREATE INDEX rego_evaluations_by_decision ON rego_evaluations (decision_attestation_id)
  WHERE decision_attestation_id IS NOT NULL;
CREATE INDEX rego_evaluations_to_remove ON rego_evaluations (recorded_at)
  WHERE decision_attestation_id IS NULL AND status <> 'pending';

-- The trails that evaluations read, for searches; rego_evaluations.trails_json says it for good.
CREATE TABLE rego_evaluation_trails (
  evaluation_id INTEGER NOT NULL REFERENCES rego_evaluations (id) ON DELETE CASCADE,
  trail_id      INTEGER NOT NULL REFERENCES trails (id) ON DELETE CASCADE,
  PRIMARY KEY (evaluation_id, trail_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rego_evaluation_trails_by_trail ON rego_evaluation_trails (trail_id, evaluation_id);

CREATE TRIGGER rego_documents_are_final BEFORE UPDATE ON rego_documents
BEGIN
  SELECT raise(ABORT, 'a document of an evaluation is never changed');
END;
-- Files of documents count as evidence, apart from those that attestations name.
CREATE TRIGGER rego_file_came AFTER INSERT ON rego_documents WHEN NEW.content IS NULL
BEGIN
  INSERT INTO evidence_totals (id, files, bytes) VALUES (1, 1, NEW.size)
    ON CONFLICT (id) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rego_file_went AFTER DELETE ON rego_documents WHEN OLD.content IS NULL
BEGIN
  UPDATE evidence_totals SET files = files - 1, bytes = bytes - OLD.size;
END;
CREATE TRIGGER rego_evaluation_went AFTER DELETE ON rego_evaluations
BEGIN
  DELETE FROM rego_documents WHERE digest IN (OLD.bundle_digest, OLD.input_digest)
    AND NOT EXISTS (SELECT 1 FROM rego_evaluations WHERE bundle_digest = rego_documents.digest)
    AND NOT EXISTS (SELECT 1 FROM rego_evaluations WHERE input_digest = rego_documents.digest)
    AND NOT EXISTS (SELECT 1 FROM rego_policy_versions WHERE bundle_digest = rego_documents.digest);
END;
