/**
 * The members of a tar archive that is in memory: POSIX ustar and pax, and the long names of GNU tar. Written by hand,
 * because uploads are small, and the packages that read tar bring a dozen others along.
 */
import { isUtf8 } from "node:buffer";
import { BLOCK_BYTES } from "./tar.ts";

/** `type`: the type flag of the header; a regular file is "0". */
export type UntarredMember = { name: string; type: string; content: Buffer };

/** Not a tar archive, or a damaged one. */
export class DamagedTarError extends Error {
  override readonly name = "DamagedTarError";
}

const REGULAR = "0";
const PAX = "x";
const PAX_GLOBAL = "g";
const GNU_LONG_NAME = "L";
const GNU_LONG_LINK = "K";
/** Offset and length of the fields of a header. */
const FIELDS = {
  name: [0, 100],
  size: [124, 12],
  checksum: [148, 8],
  type: [156, 1],
  magic: [257, 5],
  prefix: [345, 155],
};

/**
 * The members in their order, links and directories included. Stops at the end mark; names are UTF-8.
 * @throws DamagedTarError
 */
export function* untar(archive: Buffer): Generator<UntarredMember, void, undefined> {
  /** What an extension header said about the next member. */
  let extension: { name?: string; size?: number } = {};
  for (let at = 0; ; ) {
    const head = archive.subarray(at, at + BLOCK_BYTES);
    if (head.length === 0 && at > 0) return;
    if (head.length < BLOCK_BYTES) throw new DamagedTarError(`the archive is cut off after ${archive.length} bytes`);
    if (head.every((byte) => byte === 0)) return;
    const header = readHeader(head, at);
    const size = extension.size ?? header.size;
    const start = at + BLOCK_BYTES;
    if (start + size > archive.length)
      throw new DamagedTarError(`the archive is cut off after ${archive.length} bytes`);
    const content = archive.subarray(start, start + size);
    at = start + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
    if (header.type === PAX) extension = { ...extension, ...readPax(content) };
    else if (header.type === GNU_LONG_NAME) extension = { ...extension, name: readText(content) };
    else if (header.type !== PAX_GLOBAL && header.type !== GNU_LONG_LINK) {
      yield { name: extension.name ?? header.name, type: header.type, content };
      extension = {};
    }
  }
}

function readHeader(head: Buffer, at: number): { name: string; size: number; type: string } {
  const [start, length] = FIELDS.checksum as [number, number];
  let sum = 0;
  // The checksum field counts as spaces.
  for (const [index, byte] of head.entries()) sum += index >= start && index < start + length ? 0x20 : byte;
  if (readNumber(head, FIELDS.checksum) !== sum) throw new DamagedTarError(`there is no header at byte ${at}`);
  const type = readField(head, FIELDS.type);
  const prefix = readField(head, FIELDS.magic) === "ustar" && head[262] === 0 ? readField(head, FIELDS.prefix) : "";
  const name = readField(head, FIELDS.name);
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    size: readNumber(head, FIELDS.size),
    type: type === "" ? REGULAR : type,
  };
}

/** @throws DamagedTarError */
function readText(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  const text = bytes.subarray(0, end < 0 ? bytes.length : end);
  return requireText(text, text.toString("utf8"));
}

/** Replaced characters would give a file another name. @throws DamagedTarError for bytes that are not UTF-8 */
function requireText(bytes: Buffer, decoded: string): string {
  if (!isUtf8(bytes)) throw new DamagedTarError(`the name '${decoded}' is not UTF-8 text`);
  return decoded;
}

const readField = (head: Buffer, [start, length]: readonly number[]): string =>
  readText(head.subarray(start, (start ?? 0) + (length ?? 0)));

/** An octal number. Sizes in other notations are for files that no upload has. @throws DamagedTarError */
function readNumber(head: Buffer, [start = 0, length = 0]: readonly number[]): number {
  const text = head
    .toString("latin1", start, start + length)
    .replace(/\0[^]*$/, "")
    .trim();
  if (!/^[0-7]{1,11}$/.test(text)) throw new DamagedTarError("a header has a number that cannot be read");
  return Number.parseInt(text, 8);
}

/** Name and size in pax records, `<length> key=value\n`. @throws DamagedTarError */
function readPax(content: Buffer): { name?: string; size?: number } {
  const found: { name?: string; size?: number } = {};
  for (let at = 0; at < content.length; ) {
    const [text, digits = ""] = /^(\d{1,7}) /.exec(content.toString("latin1", at, at + 9)) ?? [];
    const end = at + Number(digits);
    const record = text === undefined || end > content.length ? null : content.subarray(at + text.length, end);
    const [, key, value = ""] = /^([^=]+)=([^]*)\n$/.exec(record?.toString("utf8") ?? "") ?? [];
    if (key === undefined) throw new DamagedTarError("the extended header of a member is damaged");
    if (key === "path" && record !== null) found.name = requireText(record, value);
    if (key === "size") found.size = readSize(value);
    at = end;
  }
  return found;
}

function readSize(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new DamagedTarError("the extended header of a member is damaged");
  return Number(value);
}
