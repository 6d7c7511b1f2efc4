/**
 * Reads tar archives as Assay writes them (archive/tar.ts), and no others: each header is generated again from the
 * values in it and must match byte for byte. So a changed bit anywhere outside of the contents is detected, and nothing
 * that tar can express beyond a name and a size (links, devices, owners) is ever interpreted.
 */
import { BLOCK_BYTES, END_OF_ARCHIVE_BYTES, memberHeader, memberPadding } from "../archive/tar.ts";
import { DamagedBackupError } from "./format.ts";

/** `content` must be read to its end before the next member is requested. `mtime` in epoch seconds. */
export type TarMember = { name: string; size: number; mtime: number; content: AsyncIterable<Buffer> };

/** A size that does not fit the octal field is in a pax record, which is at most this long. */
const MAX_PAX_BYTES = BLOCK_BYTES;

/** @throws DamagedBackupError unless the source is such an archive, to its last byte; errors of the source */
export async function* readTarMembers(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarMember, void, undefined> {
  const bytes = createByteReader(source);
  for (;;) {
    const header = await readHeader(bytes);
    if (header === null) return;
    const { name, size, mtime } = header;
    let isRead = false;
    const content = async function* (): AsyncGenerator<Buffer> {
      for (let left = size; left > 0; ) {
        const block = await bytes.some(left);
        left -= block.length;
        yield block;
      }
      if (!isZero(await bytes.take(memberPadding(size).length)))
        throw new DamagedBackupError(`the padding after ${name} was changed, before byte ${bytes.position()}`);
      isRead = true;
    };
    yield { name, size, mtime, content: content() };
    if (!isRead) throw new Error(`the content of ${name} was not read`);
  }
}

/** The header of the next member; null at the end of the archive. @throws DamagedBackupError */
async function readHeader(bytes: ByteReader): Promise<{ name: string; size: number; mtime: number } | null> {
  const at = bytes.position();
  const blocks: Buffer[] = [await bytes.take(BLOCK_BYTES)];
  let [head] = blocks as [Buffer];
  if (isZero(head)) {
    if (!isZero(await bytes.take(END_OF_ARCHIVE_BYTES - BLOCK_BYTES)) || !(await bytes.atEnd()))
      throw new DamagedBackupError(`there is more after its end, from byte ${bytes.position()} on`);
    return null;
  }
  let paxSize: number | null = null;
  if (head.toString("latin1", 156, 157) === "x") {
    if (parseOctal(head, 124, 12) > MAX_PAX_BYTES) throw unexpectedHeader(at);
    const records = await bytes.take(BLOCK_BYTES);
    paxSize = Number(/^\d+ size=(\d+)\n\0*$/.exec(records.toString("latin1"))?.[1] ?? Number.NaN);
    head = await bytes.take(BLOCK_BYTES);
    blocks.push(records, head);
  }
  const name = head.toString("latin1", 0, 100).replace(/\0+$/, "");
  const header = { name, size: paxSize ?? parseOctal(head, 124, 12), mtime: parseOctal(head, 136, 12) };
  if (!Number.isSafeInteger(header.size) || !Number.isSafeInteger(header.mtime)) throw unexpectedHeader(at);
  const expected = Buffer.concat([...memberHeader({ ...header, mode: 0o600 })]);
  if (!Buffer.concat(blocks).equals(expected)) throw unexpectedHeader(at);
  return header;
}

const unexpectedHeader = (at: number): Error =>
  new DamagedBackupError(`the header at byte ${at} is not one that Assay writes`);

const isZero = (bytes: Buffer): boolean => bytes.every((byte) => byte === 0);

/** An octal number of a header; NaN for anything else. */
function parseOctal(head: Buffer, at: number, length: number): number {
  const match = /^([0-7]+)\0$/.exec(head.toString("latin1", at, at + length));
  return match?.[1] === undefined ? Number.NaN : Number.parseInt(match[1], 8);
}

type ByteReader = {
  /** At least one byte, at most `max`. @throws DamagedBackupError at the end of the source */
  some(max: number): Promise<Buffer>;
  /** Exactly `length` bytes. @throws DamagedBackupError when the source is shorter */
  take(length: number): Promise<Buffer>;
  atEnd(): Promise<boolean>;
  /** Bytes read so far. */
  position(): number;
};

/** Reads a source in the lengths that the caller needs. */
function createByteReader(source: AsyncIterable<Uint8Array>): ByteReader {
  const chunks = source[Symbol.asyncIterator]();
  let buffered: Buffer = Buffer.alloc(0);
  let position = 0;

  /** Makes sure that a byte is buffered; false at the end of the source. */
  async function fill(): Promise<boolean> {
    while (buffered.length === 0) {
      const { value, done } = await chunks.next();
      if (done) return false;
      buffered = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    return true;
  }

  async function some(max: number): Promise<Buffer> {
    if (!(await fill())) throw new DamagedBackupError(`it is cut off after ${position} bytes`);
    const taken = buffered.subarray(0, max);
    buffered = buffered.subarray(taken.length);
    position += taken.length;
    return taken;
  }

  return {
    some,
    async take(length) {
      const parts: Buffer[] = [];
      for (let left = length; left > 0; ) {
        const part = await some(left);
        parts.push(part);
        left -= part.length;
      }
      return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    },
    atEnd: async () => !(await fill()),
    position: () => position,
  };
}
