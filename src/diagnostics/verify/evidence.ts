import { DamagedEvidenceError, MissingEvidenceError } from "../../evidence/errors.ts";
import type { StoredFile, EvidenceStore } from "../../evidence/local-store.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

const BATCH_SIZE = 1_000;

/** What rows say of one digest. */
type Named = { digest: string; rows: number; smallest: number; largest: number };
type Place = { public_id: string; name: string; trail: string; flow: string; organization: string };

/** `quick`: contents are not read. `now` in epoch seconds. `step` is told how many bytes of files were looked at. */
export async function checkEvidence(
  {
    db,
    vault,
    quick,
    now,
    step = () => undefined,
  }: {
    db: Db;
    vault: Pick<EvidenceStore, "list" | "read" | "describe">;
    quick: boolean;
    now: number;
    step?: (bytes: number) => void;
  },
  { damage: found, note, count: looked }: Findings,
): Promise<void> {
  const namedAfter = db.prepare<[string, number], Named>(
    `SELECT evidence_digest AS digest, count(*) AS rows, min(evidence_size) AS smallest, max(evidence_size) AS largest FROM attestations
     WHERE evidence_digest > ? GROUP BY evidence_digest ORDER BY evidence_digest LIMIT ?`,
  );
  const namedNow = db.prepare<[string], Named>(
    "SELECT evidence_digest AS digest, count(*) AS rows, min(evidence_size) AS smallest, max(evidence_size) AS largest FROM attestations WHERE evidence_digest = ? GROUP BY evidence_digest",
  );
  const placesOf = db.prepare<[string], Place>(
    `SELECT a.public_id, a.name, t.name AS trail, f.name AS flow, o.name AS organization FROM attestations a JOIN trails t ON t.id = a.trail_id JOIN flows f ON f.id = a.flow_id
     JOIN organizations o ON o.id = a.organization_id WHERE a.evidence_digest = ? ORDER BY a.id LIMIT 3`,
  );
  /** The rows that name it, for whoever has to find out what is lost. */
  const whose = (digest: string, rows: number): string => {
    const told = placesOf
      .all(digest)
      .map(
        ({ public_id, name, trail, flow, organization }) =>
          `attestation ${public_id} ('${name}' of ${organization}/${flow}/${trail})`,
      );
    return `named by ${told.join(", ")}${rows > told.length ? ` and ${rows - told.length} more` : ""}`;
  };
  const about = (digest: string): string => `evidence ${digest}`;
  let bytes = 0;

  const whole = async ({ digest, size }: StoredFile, { rows, smallest, largest }: Named): Promise<void> => {
    looked("files", 1);
    const told = smallest === largest ? `${smallest}` : `${smallest} to ${largest}`;
    if (smallest !== size || largest !== size)
      found(about(digest), `has ${size} bytes, and its rows say ${told}; ${whose(digest, rows)}`);
    else if (!quick) await content(digest, rows);
    step((bytes += size));
  };
  const content = async (digest: string, rows: number): Promise<void> => {
    try {
      for await (const block of vault.read(digest)) looked("bytes read", block.length);
    } catch (error) {
      if (error instanceof MissingEvidenceError) await missing(digest);
      else if (error instanceof DamagedEvidenceError)
        found(about(digest), `${error.message.replace(/^evidence \S+ /, "")}; ${whose(digest, rows)}`);
      else throw error;
    }
  };
  const missing = async (digest: string): Promise<void> => {
    // Asked in this order: a file is there before a row names it, and goes after the last row that did.
    const named = namedNow.get(digest);
    if (!named) return;
    const file = await vault.describe(digest);
    if (!file && namedNow.get(digest)) found(about(digest), `is missing; ${whose(digest, named.rows)}`);
    else if (file) await whole({ digest, size: file.size, modifiedAt: now }, named);
  };
  const unnamed = async (file: StoredFile): Promise<void> => {
    const named = namedNow.get(file.digest);
    if (named) return whole(file, named);
    note(
      about(file.digest),
      `is named by no attestation: ${file.size} bytes, ${formatAge(now - file.modifiedAt)} old; the server removes such files after a day`,
    );
    looked("files", 1);
    step((bytes += file.size));
  };

  // Also where there is none: it was looked for.
  looked("files", 0);
  const files = vault.list()[Symbol.asyncIterator]();
  const rows = inOrder((after) => namedAfter.all(after, BATCH_SIZE));
  let [file, row] = [await files.next(), rows.next()];
  while (!file.done || !row.done) {
    const order = file.done
      ? 1
      : row.done
        ? -1
        : file.value.digest < row.value.digest
          ? -1
          : file.value.digest > row.value.digest
            ? 1
            : 0;
    if (order === 0) await whole(file.value as StoredFile, row.value as Named);
    else if (order < 0) await unnamed(file.value as StoredFile);
    else await missing((row.value as Named).digest);
    if (order >= 0) row = rows.next();
    if (order <= 0) file = await files.next();
  }
}

function* inOrder(after: (digest: string) => Named[]): Generator<Named, undefined> {
  for (let part = after(""); part.length > 0; part = after(part.at(-1)?.digest ?? "")) yield* part;
}

/** Files that an upload left in the staging directory, or has there now. `modifiedAt` and `now` in epoch seconds. */
export function checkStaging(
  staged: readonly { name: string; size: number; modifiedAt: number }[],
  now: number,
  { note, count: looked }: Findings,
): void {
  looked("staged files", staged.length);
  for (const { name, size, modifiedAt } of staged) {
    note(
      `staging/${name}`,
      `${size} bytes, ${formatAge(now - modifiedAt)} old: an upload that is running, or one that did not end; the next start removes it`,
    );
  }
}

/** Seconds as people say them. */
export function formatAge(seconds: number): string {
  const [amount, unit] =
    seconds < 120
      ? [seconds, "second"]
      : seconds < 7200
        ? [seconds / 60, "minute"]
        : seconds < 172_800
          ? [seconds / 3600, "hour"]
          : [seconds / 86_400, "day"];
  const whole = Math.max(0, Math.round(amount as number));
  return `${whole} ${unit}${whole === 1 ? "" : "s"}`;
}
