/**
 * The bytes of a tar archive (POSIX.1-2001, pax), generated block by block on demand. Nothing in the archive depends on
 * the machine: owner and group are fixed, the caller sets mode and time, and entries keep the caller's order.
 *
 * Written by hand, because a thread that serves many archives at once needs each one to be a plain generator: one step
 * per requested block, nothing buffered, and `return` ends it at any point.
 */

/**
 * A member of an archive. `mtime`: epoch seconds; fractions are dropped. `content` must yield exactly `size` bytes;
 * each block is used up before the next one is requested, so the producer may reuse its memory.
 */
export type TarEntry = { name: string; size: number; mtime: number; content: Iterable<Uint8Array> };

export const BLOCK_BYTES = 512;
const TYPE_REGULAR = "0";
const TYPE_PAX = "x";
/** The longest name that fits a header without a pax record. */
const MAX_NAME_BYTES = 100;
/** The largest number in eleven octal digits: as a size, 8 GiB less one byte. */
const MAX_OCTAL = 0o77777777777;

/** The archive of these entries. @throws Error when the content of an entry does not have its declared size */
export function* tar(entries: Iterable<TarEntry>): Generator<Uint8Array, void, undefined> {
  for (const { name, size, mtime, content } of entries) {
    yield* memberHeader({ name, size, mtime });
    let written = 0;
    for (const block of content) {
      written += block.length;
      yield block;
    }
    if (written !== size) throw new Error(`'${name}' has ${written} bytes instead of ${size}`);
    if (size % BLOCK_BYTES !== 0) yield memberPadding(size);
  }
  yield new Uint8Array(END_OF_ARCHIVE_BYTES);
}

/** Zero bytes after the last member. */
export const END_OF_ARCHIVE_BYTES = 2 * BLOCK_BYTES;

/** The zero bytes that pad the content of a member to a whole block. */
export const memberPadding = (size: number): Uint8Array =>
  new Uint8Array((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);

/**
 * The blocks before the content of a member. `mode`: file permissions after unpacking; readable by everyone by default.
 */
export function* memberHeader({
  name,
  size,
  mtime,
  mode = 0o644,
}: {
  name: string;
  size: number;
  mtime: number;
  mode?: number;
}): Generator<Uint8Array, void, undefined> {
  const seconds = Math.min(Math.max(0, Math.floor(mtime)), MAX_OCTAL);
  const records = paxRecords(name, size);
  if (records.length > 0) {
    yield header({ name: "pax-header", size: records.length, seconds, mode, type: TYPE_PAX });
    yield padded(records);
  }
  yield header({ name, size, seconds, mode, type: TYPE_REGULAR });
}

/** The records for what a plain header cannot hold: names that are long or not ASCII, and very large sizes. */
function paxRecords(name: string, size: number): Buffer {
  const records: Buffer[] = [];
  if (!fitsHeader(name)) records.push(paxRecord("path", name));
  if (size > MAX_OCTAL) records.push(paxRecord("size", String(size)));
  return Buffer.concat(records);
}

const fitsHeader = (name: string): boolean => name.length <= MAX_NAME_BYTES && /^[\x20-\x7e]*$/.test(name);

/** `<length> key=value\n`, where the length includes its own digits. */
function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest;
  while (String(length).length + rest !== length) length = String(length).length + rest;
  return Buffer.from(`${length} ${key}=${value}\n`);
}

function padded(bytes: Buffer): Buffer {
  const block = Buffer.alloc(Math.ceil(bytes.length / BLOCK_BYTES) * BLOCK_BYTES);
  bytes.copy(block);
  return block;
}

function header({
  name,
  size,
  seconds,
  mode,
  type,
}: {
  name: string;
  size: number;
  seconds: number;
  mode: number;
  type: string;
}): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  // Readers that support pax take the name from the preceding record; the others get the part that fits.
  block.write(fitsHeader(name) ? name : name.replace(/[^\x20-\x7e]/g, "_").slice(-MAX_NAME_BYTES), 0, "latin1");
  block.write(`${mode.toString(8).padStart(7, "0")}\0`, 100, "latin1");
  block.write("0000000\0", 108, "latin1"); // user
  block.write("0000000\0", 116, "latin1"); // group
  block.write(`${octal(Math.min(size, MAX_OCTAL))}\0`, 124, "latin1");
  block.write(`${octal(seconds)}\0`, 136, "latin1");
  block.write("        ", 148, "latin1"); // the checksum field counts as spaces
  block.write(type, 156, "latin1");
  block.write("ustar\x0000", 257, "latin1");
  let checksum = 0;
  for (const byte of block) checksum += byte;
  block.write(`${checksum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

const octal = (value: number): string => value.toString(8).padStart(11, "0");
