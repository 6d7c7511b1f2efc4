/** The engine as a compiled module of WebAssembly, from what `make rego-engine` built. */
import { Readable } from "node:stream";
import { createBrotliDecompress } from "node:zlib";
import { readAsset, readTextAsset } from "../assets.ts";
import { webAssembly } from "./web-assembly.ts";
import type { CompiledModule } from "./web-assembly.ts";

/** What the engine was built from: versions of OPA and Go; SHA-256, in hex, and bytes of the module. */
type EngineFacts = { opa: string; go: string; sha256: string; bytes: number };

export const readEngineFacts = (): EngineFacts => JSON.parse(readTextAsset("rego/engine.json")) as EngineFacts;

const PAGE_BYTES = 65_536;
const HEADER_BYTES = 8;
const MEMORY_SECTION = 5;
/** The section grows by its maximum, which is a number of at most five bytes. */
const ROOM_BYTES = 8;

/**
 * Unpacks and compiles the engine in threads of the runtime, which takes a quarter of a second. Threads share a
 * compiled module, and so do engines for as long as one uses it.
 * @param maxMemoryBytes the most memory that an instance may take
 * @throws Error when the module is not as Go writes it
 */
export async function compileEngine(maxMemoryBytes: number): Promise<CompiledModule> {
  const used = compiled.get(maxMemoryBytes)?.deref();
  if (used) return used;
  const module = await unpackAndCompile(maxMemoryBytes);
  compiled.set(maxMemoryBytes, new WeakRef(module));
  return module;
}

/** By the most memory of their instances. */
const compiled = new Map<number, WeakRef<CompiledModule>>();

async function unpackAndCompile(maxMemoryBytes: number): Promise<CompiledModule> {
  const { bytes } = readEngineFacts();
  // One buffer, because the module is large: it is unpacked behind some room, into which limitMemory moves its start.
  const buffer = Buffer.allocUnsafeSlow(ROOM_BYTES + bytes);
  let end = ROOM_BYTES;
  const packed = Readable.from([readAsset("rego/engine.wasm.br")], { objectMode: false });
  for await (const chunk of packed.pipe(createBrotliDecompress({ chunkSize: 1 << 20 })))
    end += (chunk as Buffer).copy(buffer, end);
  const module = await webAssembly.compile(limitMemory(buffer.subarray(0, end), maxMemoryBytes));
  // The runtime has a copy; this one would stay until the next large collection.
  buffer.buffer.transfer(0);
  return module;
}

/**
 * The module with a maximum in its memory section: memory that does not exist cannot be taken, whatever the code does.
 * @param buffer the module, behind ROOM_BYTES
 */
function limitMemory(buffer: Buffer, maxBytes: number): Uint8Array {
  for (let at = ROOM_BYTES + HEADER_BYTES; at < buffer.length; ) {
    const size = readUnsigned(buffer, at + 1);
    const end = size.next + size.value;
    if (buffer[at] !== MEMORY_SECTION) {
      at = end;
      continue;
    }
    // One memory, without a maximum so far, and its number of pages at the start.
    if (buffer[size.next] !== 1 || buffer[size.next + 1] !== 0) break;
    const initial = readUnsigned(buffer, size.next + 2).value;
    const maximum = Math.max(initial, Math.floor(maxBytes / PAGE_BYTES));
    const content = [1, 1, ...toUnsigned(initial), ...toUnsigned(maximum)];
    const section = [MEMORY_SECTION, ...toUnsigned(content.length), ...content];
    const moved = end - section.length - at;
    buffer.copyWithin(ROOM_BYTES + moved, ROOM_BYTES, at);
    buffer.set(section, end - section.length);
    return buffer.subarray(ROOM_BYTES + moved);
  }
  throw new Error("the memory of the Rego engine is not declared as Go declares it");
}

/** Numbers of WebAssembly: seven bits in each byte, the lowest first (LEB128). */
function readUnsigned(bytes: Uint8Array, start: number): { value: number; next: number } {
  let value = 0;
  for (let at = start, scale = 1; ; at += 1, scale *= 128) {
    const byte = bytes[at] ?? 0;
    value += (byte & 127) * scale;
    if (byte < 128) return { value, next: at + 1 };
  }
}

const toUnsigned = (value: number): number[] =>
  value < 128 ? [value] : [(value % 128) + 128, ...toUnsigned(Math.floor(value / 128))];
