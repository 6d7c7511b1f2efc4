/** Gzip of what is in memory as a whole: little at once, more in the thread pool. */
import { promisify } from "node:util";
import { gunzip, gunzipSync, gzip, gzipSync } from "node:zlib";
import { withCompressors } from "./compressors.ts";

/**
 * Up to so many characters or bytes, compressing takes 20 to 100 microseconds and unpacking less than 20, as much as
 * handing them to the thread pool costs this thread, at most.
 */
const MAX_SYNC_LENGTH = 16_384;

const gzipInBackground = promisify<string | Buffer, { level?: number }, Buffer>(gzip);
const gunzipInBackground = promisify<Uint8Array, { maxOutputLength: number }, Buffer>(gunzip);

/**
 * Gzips a text, as UTF-8, or bytes.
 * @param options `level`: of zlib, from 1, the fastest, to 9; 6 if absent
 */
export const gzipWhole = (content: string | Buffer, options: { level?: number } = {}): Buffer | Promise<Buffer> =>
  withCompressors(() =>
    content.length <= MAX_SYNC_LENGTH ? gzipSync(content, options) : gzipInBackground(content, options),
  );

/**
 * Unpacks a gzip stream.
 * @param maxOutputLength bytes
 * @throws RangeError for one that has more; Error for anything else than a gzip stream
 */
export const gunzipWhole = async (packed: Uint8Array, maxOutputLength: number): Promise<Buffer> =>
  withCompressors(() =>
    packed.length <= MAX_SYNC_LENGTH
      ? gunzipSync(packed, { maxOutputLength })
      : gunzipInBackground(packed, { maxOutputLength }),
  );
