/** The list of files in a tar archive, read as far as a preview needs it. */

type ArchivedFile = { name: string; size: number };
export type ArchiveList = { files: ArchivedFile[] /** Whether the archive was read to its end. */; isWhole: boolean };

const BLOCK_BYTES = 512;
/** A name in a record of its own; longer ones are cut. */
const MAX_NAME_BYTES = 8_192;

/**
 * @param chunks the archive, not compressed
 * @param bounds how many files are listed, and how many bytes are read
 */
export async function listTar(
  chunks: AsyncIterable<Uint8Array>,
  bounds: { files: number; bytes: number },
): Promise<ArchiveList> {
  const files: ArchivedFile[] = [];
  const members = createMembers();
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    for (const file of members.read(chunk)) {
      if (files.length === bounds.files) return { files, isWhole: false };
      files.push(file);
    }
    if (members.hasEnded()) return { files, isWhole: true };
    if (bytes > bounds.bytes) return { files, isWhole: false };
  }
  return { files, isWhole: members.isBetweenMembers() };
}

/** Reads the headers of an archive that comes in pieces. */
function createMembers() {
  let header: Buffer = Buffer.alloc(0);
  let toSkip = 0;
  /** The content of a record that names the next member. */
  let name: { kind: "pax" | "gnu"; content: Buffer; left: number } | null = null;
  let nextName: string | null = null;
  let isAtEnd = false;

  function* onHeader(): Generator<ArchivedFile> {
    const [block, kind] = [header, String.fromCharCode(header[156] ?? 0)];
    header = Buffer.alloc(0);
    if (block.every((byte) => byte === 0)) {
      isAtEnd = true;
      return;
    }
    const size = sizeIn(block);
    const padded = Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
    if (kind === "x" || kind === "L") {
      name = { kind: kind === "x" ? "pax" : "gnu", content: Buffer.alloc(0), left: size };
      toSkip = padded;
      return;
    }
    toSkip = padded;
    if (kind === "0" || kind === "\0") yield { name: nextName ?? nameIn(block), size };
    if (kind !== "g") nextName = null;
  }

  /** Takes the bytes of a member's content. @returns how many */
  function skip(chunk: Uint8Array): number {
    const taken = Math.min(toSkip, chunk.length);
    if (name !== null && name.left > 0) {
      const part = chunk.subarray(0, Math.min(taken, name.left));
      name.left -= part.length;
      if (name.content.length < MAX_NAME_BYTES) name.content = Buffer.concat([name.content, part]);
    }
    toSkip -= taken;
    if (toSkip === 0 && name !== null) {
      const text = name.content.subarray(0, MAX_NAME_BYTES).toString("utf8");
      nextName =
        name.kind === "gnu" ? text.replace(/\0.*$/s, "") : (/(?:^|\n)\d+ path=([^\n]*)\n/.exec(text)?.[1] ?? null);
      name = null;
    }
    return taken;
  }

  return {
    /** The members whose headers end in this piece. */
    *read(chunk: Uint8Array): Generator<ArchivedFile> {
      for (let at = 0; at < chunk.length && !isAtEnd; ) {
        if (toSkip > 0) {
          at += skip(chunk.subarray(at));
          continue;
        }
        const part = chunk.subarray(at, at + BLOCK_BYTES - header.length);
        header = Buffer.concat([header, part]);
        at += part.length;
        if (header.length === BLOCK_BYTES) yield* onHeader();
      }
    },
    hasEnded: () => isAtEnd,
    isBetweenMembers: () => toSkip === 0 && header.length === 0,
  };
}

const fieldIn = (block: Buffer, [start, length]: readonly [number, number]): string =>
  block.toString("utf8", start, start + length).replace(/\0.*$/s, "");

function nameIn(block: Buffer): string {
  const prefix = fieldIn(block, [257, 5]) === "ustar" ? fieldIn(block, [345, 155]) : "";
  const name = fieldIn(block, [0, 100]);
  return prefix === "" ? name : `${prefix}/${name}`;
}

/** Octal digits, or for large files a binary number whose first bit is set. */
function sizeIn(block: Buffer): number {
  const field = block.subarray(124, 136);
  if ((field[0] ?? 0) < 0x80) return Number.parseInt(fieldIn(block, [124, 12]).trim() || "0", 8) || 0;
  return Number(field.readBigUInt64BE(4));
}
