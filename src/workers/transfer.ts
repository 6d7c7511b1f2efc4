/** Buffers on their way to a thread. */

/** What `postMessage` moves: the buffer of these bytes; nothing for a part of a shared buffer, which is copied. */
export const transferableOf = ({ buffer, byteLength }: Uint8Array): ArrayBuffer[] =>
  buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
