// Removes from an ELF executable what is never loaded: symbol table, debug information, compiler notes.
//
// Node's binary has about 18 MB of that after its last loadable byte. Doing it here instead of with strip(1) allows
// builds without binutils, and gives the same bytes with any version of binutils.

const ALLOCATED = 0x2n; // SHF_ALLOC: the section is loaded
const NO_BITS = 8; // SHT_NOBITS: has no bytes in the file
const HEADER_SIZE = 64; // of a section header in a 64-bit file

interface Section {
  readonly header: Buffer;
  readonly type: number;
  readonly flags: bigint;
  readonly offset: number;
  readonly size: number;
  readonly link: number;
}

/**
 * A copy of a 64-bit little-endian ELF executable without the sections that are not loaded. Everything that is loaded
 * keeps its offset in the file.
 * @throws Error when the file is anything else, or when a loaded section depends on one that is not loaded
 */
export function stripElf(image: Buffer): Buffer {
  const isElf64 =
    image.length > HEADER_SIZE && image.readUInt32BE(0) === 0x7f454c46 && image[4] === 2 && image[5] === 1;
  if (!isElf64) throw new Error("not a 64-bit little-endian ELF file");

  const sections = readSections(image);
  const nameTable = sections[image.readUInt16LE(62)];
  if (nameTable === undefined) throw new Error("the ELF file has no table of section names");

  const kept = sections.filter((section, index) => index === 0 || (section.flags & ALLOCATED) !== 0n);
  const newIndex = new Map(kept.map((section, index) => [sections.indexOf(section), index]));

  const loadedEnd = endOfLoaded(image, kept);
  const names = image.subarray(nameTable.offset, nameTable.offset + nameTable.size);
  const tableOffset = Math.ceil((loadedEnd + names.length) / 8) * 8;

  const headers = kept.map((section) => {
    const header = Buffer.from(section.header);
    const link = newIndex.get(section.link);
    if (link === undefined) throw new Error("a loaded section refers to one that is not loaded");
    header.writeUInt32LE(link, 40);
    return header;
  });
  const nameHeader = Buffer.from(nameTable.header);
  nameHeader.writeBigUInt64LE(BigInt(loadedEnd), 24);
  headers.push(nameHeader);

  const result = Buffer.alloc(tableOffset + headers.length * HEADER_SIZE);
  image.copy(result, 0, 0, loadedEnd);
  names.copy(result, loadedEnd);
  Buffer.concat(headers).copy(result, tableOffset);
  result.writeBigUInt64LE(BigInt(tableOffset), 40);
  result.writeUInt16LE(headers.length, 60);
  result.writeUInt16LE(headers.length - 1, 62);
  return result;
}

function readSections(image: Buffer): Section[] {
  const table = Number(image.readBigUInt64LE(40));
  const count = image.readUInt16LE(60);
  if (image.readUInt16LE(58) !== HEADER_SIZE || count === 0) throw new Error("the ELF file has no table of sections");
  return Array.from({ length: count }, (_, index) => {
    const header = image.subarray(table + index * HEADER_SIZE, table + (index + 1) * HEADER_SIZE);
    return {
      header,
      type: header.readUInt32LE(4),
      flags: header.readBigUInt64LE(8),
      offset: Number(header.readBigUInt64LE(24)),
      size: Number(header.readBigUInt64LE(32)),
      link: header.readUInt32LE(40),
    };
  });
}

/** The offset behind all segments and all kept sections. */
function endOfLoaded(image: Buffer, kept: readonly Section[]): number {
  const table = Number(image.readBigUInt64LE(32));
  const entrySize = image.readUInt16LE(54);
  const ends = Array.from({ length: image.readUInt16LE(56) }, (_, index) => {
    const entry = table + index * entrySize;
    return Number(image.readBigUInt64LE(entry + 8) + image.readBigUInt64LE(entry + 32));
  });
  for (const section of kept) if (section.type !== NO_BITS) ends.push(section.offset + section.size);
  return Math.max(...ends);
}
