/** Reads a backup from its first byte to its last; only the end proves that it is complete and unchanged. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { withCompressors } from "../archive/compressors.ts";
import {
  DamagedBackupError,
  MAX_TEXT_BYTES,
  MEMBER,
  creationTimeOf,
  digestOfMember,
  parseHead,
  parseManifest,
  sha256,
  sumsLine,
} from "./format.ts";
import type { Head, Manifest } from "./format.ts";
import { readTarMembers } from "./untar.ts";
import type { TarMember } from "./untar.ts";

/** Receives the contents in their order. Each method reads its content to the end; what it throws ends the reading. */
type BackupReceiver = {
  /** Called before anything else is read. */
  head(head: Head): void;
  database(content: AsyncIterable<Buffer>, size: number): Promise<void>;
  evidence(digest: string, content: AsyncIterable<Buffer>, size: number): Promise<void>;
};

/**
 * Reads an archive and checks it: all members in their order, none beside them, contents, sums and counts.
 * @throws DamagedBackupError, NewerBackupError, errors of the receiver and the source
 */
export async function readBackup(source: AsyncIterable<Uint8Array>, receiver: BackupReceiver): Promise<Manifest> {
  const members = readTarMembers(source);
  const sums = createSums();
  const head = await readHead(await nextMember(members, MEMBER.head), sums);
  receiver.head(head);
  /** The next member, null at the end; every member carries the time of the backup. */
  const next = async (): Promise<TarMember | null> => {
    const { value, done } = await members.next();
    if (done) return null;
    assertTime(value, head);
    return value;
  };

  const database = await readDatabase(present(await next(), MEMBER.database), receiver, sums);
  const files = { count: 0, bytes: 0 };
  let previous = "";
  let member = await next();
  for (; member !== null; member = await next()) {
    const digest = digestOfMember(member.name);
    if (digest === null) break;
    if (!head.evidence || digest <= previous) throw new DamagedBackupError(`${member.name} is out of place`);
    previous = digest;
    await readEvidence(member, receiver, sums);
    files.count += 1;
    files.bytes += member.size;
  }
  const sumsDigest = await readSums(present(member, MEMBER.sums), sums);
  const manifest = parseManifest(await readText(present(await next(), MEMBER.manifest), MEMBER.manifest));
  const extra = await next();
  if (extra !== null) throw new DamagedBackupError(`${extra.name} follows the end of the backup`);
  assertManifest(manifest, { head, database, files, sums_sha256: sumsDigest });
  return manifest;
}

/** SHA256SUMS, rebuilt from the members that were read. */
type Sums = { add(digest: string, member: TarMember): void; bytes(): number; digest(): string };

function createSums(): Sums {
  const hash = createHash("sha256");
  let bytes = 0;
  return {
    add(digest, { name }) {
      const line = sumsLine(digest, name);
      hash.update(line);
      bytes += line.length;
    },
    bytes: () => bytes,
    digest: () => hash.digest("hex"),
  };
}

async function nextMember(members: AsyncGenerator<TarMember>, name: string): Promise<TarMember> {
  const { value, done } = await members.next();
  return present(done ? null : value, name);
}

/** @throws DamagedBackupError where the archive ends before the member `name` */
function present(member: TarMember | null, name: string): TarMember {
  if (member === null) throw new DamagedBackupError(`it ends without ${name}`);
  return member;
}

function assertTime({ name, mtime }: TarMember, head: Head): void {
  if (mtime !== creationTimeOf(head)) throw new DamagedBackupError(`${name} has another time than the backup`);
}

function assertName({ name }: TarMember, expected: string): void {
  if (name !== expected) throw new DamagedBackupError(`expected ${expected}, found ${JSON.stringify(name)}`);
}

async function readHead(member: TarMember, sums: Sums): Promise<Head> {
  const bytes = await readText(member, MEMBER.head);
  const head = parseHead(bytes);
  assertTime(member, head);
  sums.add(sha256(bytes), member);
  return head;
}

async function readDatabase(
  member: TarMember,
  receiver: BackupReceiver,
  sums: Sums,
): Promise<{ bytes: number; sha256: string }> {
  assertName(member, MEMBER.database);
  const hashed = hashContent(member);
  await receiver.database(hashed.content, member.size);
  const digest = hashed.digest();
  sums.add(digest, member);
  return { bytes: member.size, sha256: digest };
}

async function readEvidence(member: TarMember, receiver: BackupReceiver, sums: Sums): Promise<void> {
  const digest = digestOfMember(member.name) ?? "";
  const hashed = hashContent(member);
  await receiver.evidence(digest, hashed.content, member.size);
  if (hashed.digest() !== digest) throw new DamagedBackupError(`the content of ${member.name} does not match its name`);
  sums.add(digest, member);
}

/** Checks the member against the sums of the members before it and returns its digest. */
async function readSums(member: TarMember, sums: Sums): Promise<string> {
  assertName(member, MEMBER.sums);
  const hashed = hashContent(member);
  for await (const _ of hashed.content);
  const digest = sums.digest();
  if (member.size !== sums.bytes() || hashed.digest() !== digest)
    throw new DamagedBackupError(`${MEMBER.sums} does not agree with the members before it`);
  return digest;
}

/** Compares the manifest with what was read. @throws DamagedBackupError */
function assertManifest(
  manifest: Manifest,
  read: {
    head: Head;
    database: { bytes: number; sha256: string };
    files: { count: number; bytes: number };
    sums_sha256: string;
  },
): void {
  const { database, files, sums_sha256, ...head } = manifest;
  const agrees =
    JSON.stringify(head) === JSON.stringify(read.head) &&
    database.bytes === read.database.bytes &&
    database.sha256 === read.database.sha256 &&
    files.count === read.files.count &&
    files.bytes === read.files.bytes &&
    sums_sha256 === read.sums_sha256;
  if (!agrees) throw new DamagedBackupError(`${MEMBER.manifest} does not agree with the members before it`);
}

async function readText(member: TarMember, name: string): Promise<Buffer> {
  assertName(member, name);
  if (member.size > MAX_TEXT_BYTES) throw new DamagedBackupError(`${name} is too large`);
  const blocks: Buffer[] = [];
  for await (const block of member.content) blocks.push(block);
  return Buffer.concat(blocks);
}

/** Hashes content while it is read; `digest` is for after its end. */
function hashContent({ content }: TarMember): { content: AsyncIterable<Buffer>; digest(): string } {
  const hash = createHash("sha256");
  const read = async function* (): AsyncGenerator<Buffer> {
    for await (const block of content) {
      hash.update(block);
      yield block;
    }
  };
  return { content: read(), digest: () => hash.digest("hex") };
}

const GZIP_MAGIC = Buffer.from([0x1f, 0x8b]);

/**
 * The archive in the stored bytes, which are compressed if they begin like gzip.
 * @throws DamagedBackupError for truncated or changed compressed bytes
 */
export async function* decompress(stored: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const chunks = stored[Symbol.asyncIterator]();
  let start = Buffer.alloc(0);
  while (start.length < GZIP_MAGIC.length) {
    const { value, done } = await chunks.next();
    if (done) break;
    start = Buffer.concat([start, value]);
  }
  const all = async function* (): AsyncGenerator<Uint8Array> {
    if (start.length > 0) yield start;
    for (let step = await chunks.next(); !step.done; step = await chunks.next()) yield step.value;
  };
  if (start.subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC)) yield* gunzip(all());
  else yield* all();
}

async function* gunzip(compressed: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0;
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of compressed) {
      bytes += chunk.length;
      yield chunk;
    }
  };
  const decoder = withCompressors(() => createGunzip());
  // Reading the decoder below fails with the same error.
  const fed = pipeline(Readable.from(counted()), decoder).catch(() => undefined);
  try {
    yield* decoder;
  } catch (error) {
    throw /^Z_/.test(String((error as { code?: unknown }).code))
      ? new DamagedBackupError(`it cannot be unpacked: ${(error as Error).message}`)
      : error;
  }
  await fed;
  if (decoder.bytesWritten !== bytes) throw new DamagedBackupError("there is more after its end");
}
