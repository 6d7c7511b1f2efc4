/**
 * A gzip stream (RFC 1952), compressed block by block, on demand and synchronously. zlib's own streams run in the
 * process's thread pool, where they would queue behind the fsync calls of the evidence store; the threads that call
 * this compress in their own time. Each block is deflated on its own, with the end of the previous block as its
 * dictionary, and ends on a byte boundary, so the blocks concatenate to one stream. The header carries neither time nor
 * name: the same input gives the same bytes.
 */
import { constants, crc32, deflateRawSync } from "node:zlib";
import { withCompressors } from "./compressors.ts";

/** Bytes deflated at a time. The dictionary recovers most of the compression that cutting into blocks loses. */
const BLOCK_BYTES = 256 * 1024;
/** How far back deflate can refer. */
const WINDOW_BYTES = 32 * 1024;
/** The start of a block that is deflated at the cheapest level first; a block that does not shrink is stored. */
const SAMPLE_BYTES = 16 * 1024;
/** A sample that keeps more than this share of its size is compressed already, as most evidence is. */
const MIN_INCOMPRESSIBLE_RATIO = 0.97;
/** zlib grows its output in steps of this size. */
const OUTPUT_STEP_BYTES = 64 * 1024;

/** Method deflate, no flags, no time, no extra flags, Unix. */
const HEADER = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3);
/** An empty final block. */
const FINAL_BLOCK = Uint8Array.of(3, 0);

/**
 * Compresses `input`. The producer may reuse the memory of a piece once the next piece is requested. Empty pieces are
 * passed through: they signal that the next bytes are not available yet.
 * @param level of zlib, from 1, the fastest, to 9
 */
export function* gzip(
  input: Iterable<Uint8Array>,
  level: number = constants.Z_DEFAULT_COMPRESSION,
): Generator<Uint8Array, void, undefined> {
  // The window (the end of the previous block), then the block.
  const buffer = new Uint8Array(WINDOW_BYTES + BLOCK_BYTES);
  let [windowBytes, filledBytes, checksum, inputBytes] = [0, 0, 0, 0];
  const deflateFilled = (): Uint8Array =>
    withCompressors(() =>
      deflateBlock(buffer.subarray(WINDOW_BYTES, WINDOW_BYTES + filledBytes), {
        dictionary: buffer.subarray(WINDOW_BYTES - windowBytes, WINDOW_BYTES),
        level,
      }),
    );

  yield HEADER;
  for (const piece of input) {
    if (piece.length === 0) yield piece;
    checksum = crc32(piece, checksum);
    inputBytes += piece.length;
    for (let consumed = 0; consumed < piece.length; ) {
      const part = piece.subarray(consumed, consumed + BLOCK_BYTES - filledBytes);
      buffer.set(part, WINDOW_BYTES + filledBytes);
      filledBytes += part.length;
      consumed += part.length;
      if (filledBytes < BLOCK_BYTES) continue;
      yield deflateFilled();
      buffer.copyWithin(0, BLOCK_BYTES);
      [windowBytes, filledBytes] = [WINDOW_BYTES, 0];
    }
  }
  if (filledBytes > 0) yield deflateFilled();
  yield FINAL_BLOCK;
  yield trailer(checksum, inputBytes);
}

/** CRC-32 and length modulo 2^32, both little-endian. */
function trailer(checksum: number, inputBytes: number): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(checksum, 0);
  bytes.writeUInt32LE(inputBytes % 2 ** 32, 4);
  return bytes;
}

function deflateBlock(block: Uint8Array, { dictionary, level }: { dictionary: Uint8Array; level: number }): Uint8Array {
  const finishFlush = constants.Z_SYNC_FLUSH;
  const sample = block.subarray(0, SAMPLE_BYTES);
  if (deflateRawSync(sample, { level: 1, finishFlush }).length > sample.length * MIN_INCOMPRESSIBLE_RATIO)
    return deflateRawSync(block, { level: 0, finishFlush });
  return deflateRawSync(block, {
    finishFlush,
    level,
    chunkSize: OUTPUT_STEP_BYTES,
    ...(dictionary.length > 0 ? { dictionary } : {}),
  });
}
