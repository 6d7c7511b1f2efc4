/**
 * Checks evidence and the documents of Rego evaluations, as files and as content in the database, against the rows that
 * name them. Both sides are read in the order of their digests and merged, so memory does not grow with their number,
 * and no transaction is open while files are read. A suspicious file or row is checked a second time before it is
 * reported, because a running server attaches and deletes evidence meanwhile.
 */
import { hash } from "node:crypto";
import { DamagedEvidenceError, MissingEvidenceError } from "../../evidence/errors.ts";
import type { EvidenceStore, StoredFile } from "../../evidence/local-store.ts";
import { combineEvidence } from "../../evidence/small-evidence.ts";
import { openReader } from "../../store/reader.ts";
import type { DbReader } from "../../store/db/types.ts";
import type { Findings } from "./check.ts";

/** Rows that are read at a time. */
const BATCH_SIZE = 1_000;

/** What the rows say about one digest; `smallest` and `largest` are their sizes in bytes. */
type Named = { digest: string; smallest: number; largest: number };

type EvidenceCheckOptions = {
  db: DbReader;
  store: Pick<EvidenceStore, "list" | "read" | "describe">;
  /** Contents are not read. */
  quick: boolean;
  /** Epoch seconds. */
  now: number;
  /** Is called with the bytes of the files checked so far. */
  onBytes?: (bytes: number) => void;
};

/** Merges the digests that rows name with the listing of the store; both are in the order of the digests. */
export async function checkEvidence(options: EvidenceCheckOptions, findings: Findings): Promise<void> {
  const queries = prepareQueries(options.db);
  const store = combineEvidence(queries.small, options.store, options.now);
  const check = createFileCheck({ ...options, store }, queries, findings);
  // Reported even when there are none, because the check was made.
  findings.count("files", 0);
  checkRegoContent(queries, findings);
  const files = store.list()[Symbol.asyncIterator]();
  const rows = listNamed(queries);
  let [file, row] = [await files.next(), rows.next()];
  while (!file.done || !row.done) {
    const order = compareDigests(file.done ? null : file.value.digest, row.done ? null : row.value.digest);
    if (order === 0) await check.file(file.value as StoredFile, row.value as Named);
    else if (order < 0) await check.unnamed(file.value as StoredFile);
    else await check.missing((row.value as Named).digest);
    if (order >= 0) row = rows.next();
    if (order <= 0) file = await files.next();
  }
}

/** Compares the documents that are in their rows with their digests. */
function checkRegoContent({ regoContent, namesOf }: Queries, { damage, count }: Findings): void {
  for (const { digest, content } of regoContent.iterate()) {
    const actual = hash("sha256", content);
    count("bytes read", content.length);
    if (actual !== digest)
      damage(`evidence ${digest}`, `its content in the database has the digest ${actual}; ${namesOf(digest)}`);
  }
}

/** The order of two digests, an absent one last. */
function compareDigests(file: string | null, row: string | null): number {
  if (file === row) return 0;
  if (file === null) return 1;
  return row === null || file < row ? -1 : 1;
}

type Queries = ReturnType<typeof prepareQueries>;

const MAX_NAMED_ROWS = 3;

/** What names a digest, as text, oldest first within each table. */
const NAMING_ROWS = `
  SELECT name FROM (
    SELECT 'attestation ' || att.public_id || ' (''' || att.name || ''' of ' || o.name || '/' || f.name || '/' || t.name
             || ')' AS name
    FROM attestations att JOIN trails t ON t.id = att.trail_id JOIN flows f ON f.id = att.flow_id
    JOIN organizations o ON o.id = att.organization_id
    WHERE att.evidence_digest = @digest ORDER BY att.id LIMIT @limit)
  UNION ALL SELECT name FROM (
    SELECT 'version ' || pv.version || ' of Rego policy ' || pol.identifier || ' of ' || o.name AS name
    FROM rego_policy_versions pv JOIN rego_policies pol ON pol.id = pv.rego_policy_id
    JOIN organizations o ON o.id = pol.organization_id
    WHERE pv.bundle_digest = @digest ORDER BY pv.id LIMIT @limit)
  UNION ALL SELECT name FROM (
    SELECT 'evaluation ' || ev.public_id || ' of ' || o.name AS name
    FROM rego_evaluations ev JOIN organizations o ON o.id = ev.organization_id
    WHERE ev.bundle_digest = @digest OR ev.input_digest = @digest ORDER BY ev.id LIMIT @limit)
  LIMIT @limit`;

function prepareQueries(db: DbReader) {
  const named = (comparison: "=" | ">"): string =>
    `SELECT evidence_digest AS digest, min(evidence_size) AS smallest, max(evidence_size) AS largest
     FROM attestations WHERE evidence_digest ${comparison} @digest GROUP BY evidence_digest
     UNION ALL
     SELECT digest, size, size FROM rego_documents WHERE content IS NULL AND digest ${comparison} @digest
       AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = digest)
     ORDER BY digest`;
  const namingRows = db.prepare<[{ digest: string; limit: number }], string>(NAMING_ROWS).pluck();
  return {
    small: openReader(db).smallEvidence,
    namedAfter: db.prepare<[{ digest: string; limit: number }], Named>(`${named(">")} LIMIT @limit`),
    named: db.prepare<[{ digest: string }], Named>(named("=")),
    regoContent: db.prepare<[], { digest: string; content: Buffer }>(
      "SELECT digest, content FROM rego_documents WHERE content IS NOT NULL ORDER BY digest",
    ),
    /** The first rows that name a digest, so that the operator can see what is lost. */
    namesOf(digest: string): string {
      const rows = namingRows.all({ digest, limit: MAX_NAMED_ROWS + 1 });
      const named = rows.slice(0, MAX_NAMED_ROWS).join(", ");
      return `named by ${named}${rows.length > MAX_NAMED_ROWS ? " and more" : ""}`;
    },
  };
}

function* listNamed({ namedAfter }: Queries): Generator<Named, undefined> {
  const next = (digest: string): Named[] => namedAfter.all({ digest, limit: BATCH_SIZE });
  for (let batch = next(""); batch.length > 0; batch = next(batch.at(-1)?.digest ?? "")) yield* batch;
}

type FileCheck = {
  /** A file that rows name. */
  file(file: StoredFile, named: Named): Promise<void>;
  /** A file that no row named when the rows were read. */
  unnamed(file: StoredFile): Promise<void>;
  /** A digest without a file when the files were listed. */
  missing(digest: string): Promise<void>;
};

function createFileCheck(
  { store, quick, now, onBytes = () => undefined }: EvidenceCheckOptions,
  { small, named, namesOf }: Queries,
  { damage, note, count }: Findings,
): FileCheck {
  let bytes = 0;
  const aboutDigest = (digest: string): string => `evidence ${digest}`;

  async function checkContent(digest: string): Promise<void> {
    try {
      for await (const block of store.read(digest)) count("bytes read", block.length);
    } catch (error) {
      if (error instanceof MissingEvidenceError) await checkMissing(digest);
      else if (error instanceof DamagedEvidenceError)
        damage(aboutDigest(digest), `${error.message.replace(/^evidence \S+ /, "")}; ${namesOf(digest)}`);
      else throw error;
    }
  }

  async function checkFile({ digest, size }: StoredFile, { smallest, largest }: Named): Promise<void> {
    count("files", 1);
    const expected = smallest === largest ? `${smallest}` : `${smallest} to ${largest}`;
    if (smallest !== size || largest !== size)
      damage(aboutDigest(digest), `has ${size} bytes, but its rows say ${expected}; ${namesOf(digest)}`);
    else if (!quick) await checkContent(digest);
    bytes += size;
    onBytes(bytes);
  }

  async function checkMissing(digest: string): Promise<void> {
    // In this order: a file exists before a row names it, and is removed after the last row that did.
    const current = named.get({ digest });
    if (!current) return;
    const file = await store.describe(digest);
    if (!file && named.get({ digest })) damage(aboutDigest(digest), `is missing; ${namesOf(digest)}`);
    else if (file) await checkFile({ digest, size: file.size, modifiedAt: now }, current);
  }

  return {
    file: checkFile,
    missing: checkMissing,
    async unnamed(file) {
      // Read after the content: both come in one transaction.
      const isInDatabase = small.sizeOf(file.digest) !== null;
      const current = named.get({ digest: file.digest });
      if (current) return checkFile(file, current);
      if (isInDatabase) return damage(aboutDigest(file.digest), "is in the database, although no attestation names it");
      note(
        aboutDigest(file.digest),
        `is not named by any record: ${file.size} bytes, ${formatAge(now - file.modifiedAt)} old; ` +
          "the server removes such files after a day",
      );
      count("files", 1);
      bytes += file.size;
      onBytes(bytes);
    },
  };
}

/** Files of running and interrupted uploads in the staging directory. `modifiedAt` and `now` in epoch seconds. */
export function checkStaging(
  staged: readonly { name: string; size: number; modifiedAt: number }[],
  now: number,
  { note, count }: Findings,
): void {
  count("staged files", staged.length);
  for (const { name, size, modifiedAt } of staged)
    note(
      `staging/${name}`,
      `${size} bytes, ${formatAge(now - modifiedAt)} old: a running or interrupted upload; the next start removes it`,
    );
}

/** Seconds in a readable unit: "3 hours". */
function formatAge(seconds: number): string {
  const [amount, unit] =
    seconds < 120
      ? [seconds, "second"]
      : seconds < 7200
        ? [seconds / 60, "minute"]
        : seconds < 172_800
          ? [seconds / 3600, "hour"]
          : [seconds / 86_400, "day"];
  const rounded = Math.max(0, Math.round(amount as number));
  return `${rounded} ${unit}${rounded === 1 ? "" : "s"}`;
}
