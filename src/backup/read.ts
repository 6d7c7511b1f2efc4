/** Reads a backup from its first byte to its last, and believes it only then. */
import { createHash } from "node:crypto";
import { createGunzip } from "node:zlib";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import {
  DamagedBackupError,
  MAX_TEXT_BYTES,
  MEMBER,
  digestOfMember,
  parseHead,
  parseManifest,
  sha256,
  sumsLine,
  creationTimeOf,
} from "./format.ts";
import type { Head, Manifest } from "./format.ts";
import { readTarMembers } from "./untar.ts";
import type { TarMember } from "./untar.ts";

/** What is done with the contents. Each takes them to their end; what it throws ends the reading. */
export type BackupReceiver = {
  /** Before anything else is read. */
  head(head: Head): void;
  database(content: AsyncIterable<Buffer>, size: number): Promise<void>;
  evidence(digest: string, content: AsyncIterable<Buffer>, size: number): Promise<void>;
};

/**
 * Resolves with the manifest when everything is there and as it was written: all members in their order, nothing beside
 * them, contents, sums and counts.
 * @throws DamagedBackupError, NewerBackupError, what the receiver and the source throw.
 */
export async function readBackup(source: AsyncIterable<Uint8Array>, receiver: BackupReceiver): Promise<Manifest> {
  const sums = createHash("sha256");
  let sumsBytes = 0;
  const files = { count: 0, bytes: 0 };
  let [head, database, before]: [Head | null, { bytes: number; sha256: string } | null, string] = [null, null, ""];
  let sumsDigest: string | null = null;
  let manifest: Manifest | null = null;

  const note = (digest: string, { name }: TarMember): void => {
    const line = sumsLine(digest, name);
    sums.update(line);
    sumsBytes += line.length;
  };

  for await (const member of readTarMembers(source)) {
    const digest = head === null ? null : digestOfMember(member.name);
    if (head !== null && member.mtime !== creationTimeOf(head))
      throw new DamagedBackupError(`${member.name} has another time than the backup`);
    if (head === null) {
      const bytes = await textOf(member, MEMBER.head);
      head = parseHead(bytes);
      if (member.mtime !== creationTimeOf(head))
        throw new DamagedBackupError(`${member.name} has another time than the backup`);
      note(sha256(bytes), member);
      receiver.head(head);
    } else if (database === null) {
      expect(member, MEMBER.database);
      const hashed = hashing(member);
      await receiver.database(hashed.content, member.size);
      database = { bytes: member.size, sha256: hashed.digest() };
      note(database.sha256, member);
    } else if (digest !== null && sumsDigest === null) {
      if (!head.evidence || digest <= before)
        throw new DamagedBackupError(`${member.name} stands where it does not belong`);
      before = digest;
      const hashed = hashing(member);
      await receiver.evidence(digest, hashed.content, member.size);
      if (hashed.digest() !== digest)
        throw new DamagedBackupError(`the content of ${member.name} is not what its name says`);
      files.count += 1;
      files.bytes += member.size;
      note(digest, member);
    } else if (sumsDigest === null) {
      expect(member, MEMBER.sums);
      const hashed = hashing(member);
      for await (const _ of hashed.content);
      sumsDigest = sums.digest("hex");
      if (member.size !== sumsBytes || hashed.digest() !== sumsDigest)
        throw new DamagedBackupError(`${MEMBER.sums} does not agree with the members before it`);
    } else if (manifest === null) {
      manifest = parseManifest(await textOf(member, MEMBER.manifest));
    } else throw new DamagedBackupError(`${member.name} stands after its end`);
  }
  if (manifest === null || head === null) throw new DamagedBackupError(`it ends without ${MEMBER.manifest}`);
  const { database: told, files: counted, sums_sha256, ...rest } = manifest;
  const agrees =
    JSON.stringify(rest) === JSON.stringify(head) &&
    told.bytes === database?.bytes &&
    told.sha256 === database.sha256 &&
    counted.count === files.count &&
    counted.bytes === files.bytes &&
    sums_sha256 === sumsDigest;
  if (!agrees) throw new DamagedBackupError(`${MEMBER.manifest} does not agree with the members before it`);
  return manifest;
}

function expect({ name }: TarMember, wanted: string): void {
  if (name !== wanted) throw new DamagedBackupError(`where ${wanted} should be is ${JSON.stringify(name)}`);
}

async function textOf(member: TarMember, name: string): Promise<Buffer> {
  expect(member, name);
  if (member.size > MAX_TEXT_BYTES) throw new DamagedBackupError(`${name} is too large`);
  const blocks: Buffer[] = [];
  for await (const block of member.content) blocks.push(block);
  return Buffer.concat(blocks);
}

function hashing({ content }: TarMember): { content: AsyncIterable<Buffer>; digest(): string } {
  const hash = createHash("sha256");
  const read = async function* (): AsyncGenerator<Buffer> {
    for await (const block of content) {
      hash.update(block);
      yield block;
    }
  };
  return { content: read(), digest: () => hash.digest("hex") };
}

/** The first bytes of gzip. */
const GZIP_MAGIC = Buffer.from([0x1f, 0x8b]);

/**
 * The archive in what was stored, which may be compressed: its first bytes tell.
 * @throws DamagedBackupError for compressed bytes that are not whole.
 */
export async function* decompress(stored: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const chunks = stored[Symbol.asyncIterator]();
  let start = Buffer.alloc(0);
  while (start.length < GZIP_MAGIC.length) {
    const { value, done } = await chunks.next();
    if (done) break;
    start = Buffer.concat([start, value]);
  }
  const whole = async function* (): AsyncGenerator<Uint8Array> {
    if (start.length > 0) yield start;
    for (let step = await chunks.next(); !step.done; step = await chunks.next()) yield step.value;
  };
  if (!start.subarray(0, 2).equals(GZIP_MAGIC)) return void (yield* whole());

  let bytes = 0;
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of whole()) {
      bytes += chunk.length;
      yield chunk;
    }
  };
  const gunzip = createGunzip();
  // What fails here fails below too, where it is told.
  const fed = pipeline(Readable.from(counted()), gunzip).catch(() => undefined);
  try {
    yield* gunzip;
  } catch (error) {
    throw /^Z_/.test(String((error as { code?: unknown }).code))
      ? new DamagedBackupError(`it cannot be unpacked: ${(error as Error).message}`)
      : error;
  }
  await fed;
  if (gunzip.bytesWritten !== bytes) throw new DamagedBackupError("there is more after its end");
}
