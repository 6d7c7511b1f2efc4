/**
 * A gzip stream (RFC 1952) made block by block on demand, synchronously: zlib's own streams work in the thread pool of
 * the process, where the syncs of the vault wait, and a thread that is there for packages alone needs no other. Each
 * block is deflated by itself, with the end of the one before as its dictionary, and ends on a byte, so that the blocks
 * make one stream. The header has no time and no name: the same input gives the same bytes.
 */
import { constants, crc32, deflateRawSync } from "node:zlib";

/** Bytes deflated at a time. A dictionary makes up for most of what cutting costs. */
const BLOCK = 256 * 1024;
/** How far back deflate looks. */
const WINDOW = 32 * 1024;
/** Bytes of a block that are tried first, at the cheapest level: what does not shrink is stored as it is. */
const SAMPLE = 16 * 1024;
/**
 * A sample that keeps more than this part of its size belongs to something compressed already, as evidence mostly is.
 */
const HOPELESS = 0.97;

// Deflate, no flags, no time, no hints, Unix.
const HEADER = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3);
// An empty last block.
const END = Uint8Array.of(3, 0);

/**
 * Compresses what comes. Pieces of the input may be reused by their maker once the next one is asked for. An empty
 * piece is passed on: it says that the next bytes are not here yet.
 */
export function* gzip(input: Iterable<Uint8Array>): Generator<Uint8Array, void, undefined> {
  // The window of the block before, then the block.
  const buffer = new Uint8Array(WINDOW + BLOCK);
  let [window, filled, sum, length] = [0, 0, 0, 0];
  yield HEADER;
  for (const piece of input) {
    if (piece.length === 0) yield piece;
    sum = crc32(piece, sum);
    length += piece.length;
    for (let taken = 0; taken < piece.length; ) {
      const part = piece.subarray(taken, taken + BLOCK - filled);
      buffer.set(part, WINDOW + filled);
      filled += part.length;
      taken += part.length;
      if (filled < BLOCK) continue;
      yield deflated(buffer.subarray(WINDOW), buffer.subarray(WINDOW - window, WINDOW));
      buffer.copyWithin(0, BLOCK);
      [window, filled] = [WINDOW, 0];
    }
  }
  if (filled > 0) yield deflated(buffer.subarray(WINDOW, WINDOW + filled), buffer.subarray(WINDOW - window, WINDOW));
  yield END;
  const trailer = new DataView(new ArrayBuffer(8));
  trailer.setUint32(0, sum, true);
  trailer.setUint32(4, length % 2 ** 32, true);
  yield new Uint8Array(trailer.buffer);
}

function deflated(block: Uint8Array, dictionary: Uint8Array): Uint8Array {
  const finishFlush = constants.Z_SYNC_FLUSH;
  const sample = block.subarray(0, SAMPLE);
  if (deflateRawSync(sample, { level: 1, finishFlush }).length > sample.length * HOPELESS)
    return deflateRawSync(block, { level: 0, finishFlush });
  return deflateRawSync(block, { finishFlush, chunkSize: CHUNK, ...(dictionary.length > 0 ? { dictionary } : {}) });
}

/** zlib's output grows in steps of this size. */
const CHUNK = 64 * 1024;
