/** Reads software bills of materials within the memory of a thread. */
import { TOO_COMPLEX, readSbomDocument } from "../domain/sbom/document.ts";
import type { ReadDocument } from "../domain/sbom/document.ts";
import { scanWhole } from "../json/scan.ts";
import type { ScanBounds } from "../json/scan.ts";

/**
 * Documents that are read. The text takes up to two bytes a character, its strings as much again, and each value up to
 * seventy: together two thirds of the heap of the thread.
 */
export const MAX_SBOM_BYTES = 8 * 1024 * 1024;
export const TOO_LARGE = { unread: `it is larger than ${MAX_SBOM_BYTES / 1024 / 1024} MB` };
const BOUNDS: ScanBounds = { values: 400_000, containers: 150_000, scalars: 400_000, keys: 10_000, names: 10_000 };

/** Of JSON, which may begin with a byte order mark. */
const isObjectText = (bytes: Uint8Array): boolean => {
  let at = 0;
  while (at < bytes.length && " \t\r\n\u00ef\u00bb\u00bf".includes(String.fromCharCode(bytes[at] as number))) at += 1;
  return bytes[at] === "{".charCodeAt(0);
};

/** Reads a document of at most MAX_SBOM_BYTES. */
export function readBoundedSbom(bytes: Uint8Array): ReadDocument {
  if (isObjectText(bytes) && scanWhole(bytes, BOUNDS).problem !== null) return TOO_COMPLEX;
  return readSbomDocument(bytes);
}
