/**
 * Reads tar archives as Assay writes them (packages/tar.ts), and no others: each header is made again from what it
 * says, and must be the same byte for byte. So a changed bit anywhere outside of the contents shows, and nothing that
 * tar could say beside a name and a size (links, devices, owners) is ever looked at.
 */
import { BLOCK_BYTES, END_OF_ARCHIVE_BYTES, memberHeader, memberPadding } from "../archive/tar.ts";
import { DamagedBackupError } from "./format.ts";

/** `content` must be read to its end before the next member is asked for. `mtime`: epoch seconds. */
export type TarMember = { name: string; size: number; mtime: number; content: AsyncIterable<Buffer> };

/** A size in octal digits that does not fit is told by a pax record, which is this long at most. */
const MAX_PAX_BYTES = BLOCK_BYTES;

/** @throws DamagedBackupError for everything that is not such an archive, to its last byte; what the source throws. */
export async function* readTarMembers(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarMember, void, undefined> {
  const bytes = reader(source);
  for (;;) {
    const at = bytes.position();
    const read: Buffer[] = [await bytes.take(BLOCK_BYTES)];
    let [head] = read as [Buffer];
    if (isZero(head)) {
      if (!isZero(await bytes.take(END_OF_ARCHIVE_BYTES - BLOCK_BYTES)) || !(await bytes.atEnd()))
        throw new DamagedBackupError(`there is more after its end, from byte ${bytes.position()} on`);
      return;
    }
    let size: number | null = null;
    if (head.toString("latin1", 156, 157) === "x") {
      if (octal(head, 124, 12) > MAX_PAX_BYTES) throw strange(at);
      const records = await bytes.take(BLOCK_BYTES);
      size = Number(/^\d+ size=(\d+)\n\0*$/.exec(records.toString("latin1"))?.[1] ?? Number.NaN);
      head = await bytes.take(BLOCK_BYTES);
      read.push(records, head);
    }
    const name = head.toString("latin1", 0, 100).replace(/\0+$/, "");
    const member = { name, size: size ?? octal(head, 124, 12), mtime: octal(head, 136, 12), mode: 0o600 };
    if (!Number.isSafeInteger(member.size) || !Number.isSafeInteger(member.mtime)) throw strange(at);
    if (!Buffer.concat(read).equals(Buffer.concat([...memberHeader(member)]))) throw strange(at);
    let whole = false;
    const content = async function* (): AsyncGenerator<Buffer> {
      for (let left = member.size; left > 0; ) {
        const block = await bytes.some(left);
        left -= block.length;
        yield block;
      }
      if (!isZero(await bytes.take(memberPadding(member.size).length)))
        throw new DamagedBackupError(`what follows ${name} is not as it was written, before byte ${bytes.position()}`);
      whole = true;
    };
    yield { name, size: member.size, mtime: member.mtime, content: content() };
    if (!whole) throw new Error(`the content of ${name} was not read`);
  }
}

const strange = (at: number): Error =>
  new DamagedBackupError(`what stands at byte ${at} is not what Assay writes there`);

const isZero = (bytes: Buffer): boolean => bytes.every((byte) => byte === 0);

/** An octal number of a header; NaN for anything else. */
function octal(head: Buffer, at: number, length: number): number {
  const match = /^([0-7]+)\0$/.exec(head.toString("latin1", at, at + length));
  return match?.[1] === undefined ? Number.NaN : Number.parseInt(match[1], 8);
}

/** Takes bytes from a source in the lengths that somebody needs. */
function reader(source: AsyncIterable<Uint8Array>) {
  const chunks = source[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  let position = 0;

  /** Makes sure that something is held; false at the end of the source. */
  async function fill(): Promise<boolean> {
    while (held.length === 0) {
      const { value, done } = await chunks.next();
      if (done) return false;
      held = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    return true;
  }

  /** At least one byte, at most `most`. */
  async function some(most: number): Promise<Buffer> {
    if (!(await fill())) throw new DamagedBackupError(`it is cut off after ${position} bytes`);
    const taken = held.subarray(0, most);
    held = held.subarray(taken.length);
    position += taken.length;
    return taken;
  }

  return {
    some,
    /** That many bytes. */
    async take(length: number): Promise<Buffer> {
      const parts: Buffer[] = [];
      for (let left = length; left > 0; ) {
        const part = await some(left);
        parts.push(part);
        left -= part.length;
      }
      return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    },
    atEnd: async (): Promise<boolean> => !(await fill()),
    position: () => position,
  };
}
