/** A data directory with evidence that a server uses, backups of it, and archives put together by hand. */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeBackup } from "../../src/backup/make.ts";
import type { BackupOptions } from "../../src/backup/make.ts";
import { restoreBackup } from "../../src/backup/restore.ts";
import type { RestoreOptions } from "../../src/backup/restore.ts";
import { END_OF_ARCHIVE_BYTES, memberHeader, memberPadding } from "../../src/archive/tar.ts";
import { startServer } from "../given.ts";
import { sha256, untar } from "../audit-packages/unpack.ts";

export const PROGRAM = { version: "1.2.3", commit: null };
/** 2026-01-02T03:04:05Z */
export const AT = 1_767_323_045;
export const QUIET = { begin: () => undefined, reach: () => undefined };

const made: string[] = [];
/** A new directory; call `removeDirectories` in `test.after`. */
export function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "assay-backup-"));
  made.push(directory);
  return directory;
}
export function removeDirectories(): void {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true });
}

/** Evidence of one byte, just over a tar block, and more than one read; the first is attached twice. */
export const EVIDENCE = [Buffer.from("x"), Buffer.alloc(513, "ab"), Buffer.alloc(300_000, "evidence ")] as const;

/**
 * A server over `data` in a new directory, with attestations with the evidence above, and one without evidence.
 * `smallEvidence`: bytes up to which evidence is in the database; none unless given.
 */
export async function givenData({ smallEvidence = 0 } = {}) {
  const root = newDirectory();
  const data = join(root, "data");
  const server = await startServer({ directory: data, limits: { smallEvidence } });
  const at = server.given.org({ name: "acme" });
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow, name: "one" });
  const attest = (content: Buffer | null): Promise<string> =>
    server.given.attestation(at, {
      flow,
      trail,
      ...(content ? { file: { name: "attachment_file", filename: "e.bin", content } } : {}),
    });
  for (const content of [...EVIDENCE, EVIDENCE[0], null]) await attest(content);
  const pathOf = (content: Buffer): string =>
    join(data, "evidence", sha256(content).slice(0, 2), sha256(content).slice(2));
  return { root, data, server, at, flow, trail, attest, pathOf };
}

type Given = Awaited<ReturnType<typeof givenData>>;

/** Makes a backup of `given`; returns its bytes and its result. */
export async function backUp({ data, server }: Given, options: Partial<BackupOptions> = {}) {
  const pieces: Buffer[] = [];
  const backup = await makeBackup({
    directory: data,
    target: { write: async (bytes) => void pieces.push(Buffer.from(bytes)) },
    evidence: async () => ({ ...server.evidenceStore, close: async () => undefined }),
    allowMissing: false,
    reserve: 0,
    program: PROGRAM,
    now: () => AT,
    signal: new AbortController().signal,
    progress: QUIET,
    ...options,
  });
  return { ...backup, archive: Buffer.concat(pieces) };
}

/** Restores those bytes, into `target` of a new directory by default. */
export async function restore(archive: Uint8Array, options: Partial<RestoreOptions> = {}) {
  const root = newDirectory();
  const directory = options.directory ?? join(root, "target");
  const manifest = await restoreBackup({
    directory,
    source: chunked(archive),
    size: archive.length,
    withoutEvidence: false,
    allowMissing: false,
    signal: new AbortController().signal,
    progress: QUIET,
    ...options,
  });
  return { directory, manifest };
}

/** Chunks of irregular lengths, as a pipe delivers them. */
async function* chunked(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0, length = 1; at < bytes.length; at += length, length = (length * 7) % 70_001)
    yield bytes.subarray(at, at + length);
}

/** The error of a restore that must fail; throws when it succeeds or leaves anything behind. */
export async function refused(archive: Uint8Array, options: Partial<RestoreOptions> = {}): Promise<Error> {
  const root = newDirectory();
  const error = await restore(archive, { directory: join(root, "target"), ...options }).then(
    () => null,
    (thrown: unknown) => thrown as Error,
  );
  if (!error) throw new Error("it was restored");
  if (readdirSync(root).length > 0) throw new Error(`left: ${readdirSync(root).join(", ")}`);
  return error;
}

export { sha256 };

export type Part = { name: string; content: Buffer };

/** The members of an archive, in their order. */
export async function partsOf(archive: Buffer): Promise<Part[]> {
  const members = await untar(archive);
  return members.names.map((name) => ({ name, content: Buffer.from(members.bytes(name)) }));
}

/** An archive of those members in the format that Assay writes. */
export const pack = (parts: readonly Part[], mtime = AT): Buffer =>
  Buffer.concat([
    ...parts.flatMap(({ name, content }) => [
      ...memberHeader({ name, size: content.length, mtime, mode: 0o600 }),
      content,
      memberPadding(content.length),
    ]),
    new Uint8Array(END_OF_ARCHIVE_BYTES),
  ]);

/** `pack` with new sums and a new manifest, changed by `change`: a forgery by an author who knows the format. */
export function repack(parts: readonly Part[], change: (manifest: any) => void = () => undefined): Buffer {
  const kept = parts.filter(({ name }) => name !== "SHA256SUMS" && name !== "manifest.json");
  const sums = Buffer.from(kept.map(({ name, content }) => `${sha256(content)}  ${name}\n`).join(""));
  const { checksum: _, ...manifest } = JSON.parse(
    parts.find(({ name }) => name === "manifest.json")?.content.toString() ?? "{}",
  );
  Object.assign(manifest, JSON.parse(kept[0]?.content.toString() ?? "{}"));
  const evidence = kept.filter(({ name }) => name.startsWith("evidence/"));
  const database = kept.find(({ name }) => name === "assay.db")?.content ?? Buffer.alloc(0);
  Object.assign(manifest.database, { bytes: database.length, sha256: sha256(database) });
  Object.assign(manifest.files, {
    count: evidence.length,
    bytes: evidence.reduce((sum, { content }) => sum + content.length, 0),
  });
  manifest.sums_sha256 = sha256(sums);
  change(manifest);
  const text = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;
  return pack([
    ...kept,
    { name: "SHA256SUMS", content: sums },
    { name: "manifest.json", content: Buffer.from(text({ ...manifest, checksum: sha256(text(manifest)) })) },
  ]);
}

/** The evidence files of a data directory: digest -> bytes. */
export function evidenceIn(directory: string): Map<string, Buffer> {
  const root = join(directory, "evidence");
  if (!existsSync(root)) return new Map();
  return new Map(
    readdirSync(root).flatMap((shard) =>
      readdirSync(join(root, shard)).map((name): [string, Buffer] => [
        shard + name,
        readFileSync(join(root, shard, name)),
      ]),
    ),
  );
}
