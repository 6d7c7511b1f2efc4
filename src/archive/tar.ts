/**
 * The bytes of a tar archive (POSIX.1-2001, pax), made block by block on demand. Nothing in it comes from the machine:
 * owner, group and mode are fixed, times are given, and entries come in the order in which they are handed in.
 *
 * It is made by hand because a thread that serves many archives wants each to be a plain generator: one step per block
 * that somebody waits for, nothing buffered, over as soon as nobody wants more.
 */

/**
 * `mtime`: epoch seconds; fractions are dropped. `content` must give exactly `size` bytes; a block is used before the
 * next is asked for.
 */
export type TarEntry = { name: string; size: number; mtime: number; content: Iterable<Uint8Array> };

export const BLOCK_BYTES = 512;
const REGULAR = "0";
const PAX = "x";
/** The longest name that a header has room for without a pax record. */
const NAME_BYTES = 100;
/** The largest size that eleven octal digits can tell: 8 GiB less one byte. */
const LARGEST_OCTAL = 0o77777777777;

/** @throws Error when the content of an entry is not as long as it was said to be. */
export function* tar(entries: Iterable<TarEntry>): Generator<Uint8Array, void, undefined> {
  for (const { name, size, mtime, content } of entries) {
    yield* memberHeader({ name, size, mtime });
    let given = 0;
    for (const block of content) {
      given += block.length;
      yield block;
    }
    if (given !== size) throw new Error(`'${name}' has ${given} bytes instead of ${size}`);
    if (size % BLOCK_BYTES !== 0) yield memberPadding(size);
  }
  yield new Uint8Array(END_OF_ARCHIVE_BYTES);
}

/** Zeros that follow the last member. */
export const END_OF_ARCHIVE_BYTES = 2 * BLOCK_BYTES;

/** The zeros that follow the content of a member. */
export const memberPadding = (size: number): Uint8Array =>
  new Uint8Array((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);

/** The blocks before the content of a member. `mode`: who may read it once it is unpacked, everybody unless given. */
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
  const seconds = Math.min(Math.max(0, Math.floor(mtime)), LARGEST_OCTAL);
  const records = paxRecords(name, size);
  if (records.length > 0) {
    yield header({ name: "pax-header", size: records.length, seconds, mode, type: PAX });
    yield padded(records);
  }
  yield header({ name, size, seconds, mode, type: REGULAR });
}

/** What a plain header cannot say: names that are long or not ASCII, and very large sizes. */
function paxRecords(name: string, size: number): Buffer {
  const records: Buffer[] = [];
  if (!fits(name)) records.push(paxRecord("path", name));
  if (size > LARGEST_OCTAL) records.push(paxRecord("size", String(size)));
  return Buffer.concat(records);
}

const fits = (name: string): boolean => name.length <= NAME_BYTES && /^[\x20-\x7e]*$/.test(name);

/** `<length> key=value\n`, where the length counts its own digits. */
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
  // Readers that know pax take the name from the record before; for the others there is what fits.
  block.write(fits(name) ? name : name.replace(/[^\x20-\x7e]/g, "_").slice(-NAME_BYTES), 0, "latin1");
  block.write(`${mode.toString(8).padStart(7, "0")}\0`, 100, "latin1");
  block.write("0000000\0", 108, "latin1"); // user
  block.write("0000000\0", 116, "latin1"); // group
  block.write(`${octal(Math.min(size, LARGEST_OCTAL))}\0`, 124, "latin1");
  block.write(`${octal(seconds)}\0`, 136, "latin1");
  block.write("        ", 148, "latin1"); // counts as spaces in the sum
  block.write(type, 156, "latin1");
  block.write("ustar\x0000", 257, "latin1");
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

const octal = (value: number): string => value.toString(8).padStart(11, "0");
