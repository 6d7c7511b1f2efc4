/**
 * Parses a form that has arrived as a whole and is written as nearly every client writes one: a field, a file, or one
 * of each, without a preamble, folded headers, escapes or charsets other than UTF-8.
 *
 * It decides nothing but that. Whatever is written in another way, and whatever is to be refused, is left to the parser
 * of multipart.ts, so that there is one place for refusals. What it does read, that parser reads in the same way;
 * `make fuzz-forms` compares the two.
 */
import { isUtf8 } from "node:buffer";

/** A part of a form. `bytes` is a slice of the body. */
export type PlainPart = {
  name: string;
  /** The last segment of the name that the client gave; null for a field, whose bytes are UTF-8. */
  filename: string | null;
  /** In lower case, without parameters. */
  mimeType: string;
  bytes: Buffer;
};

/** A form has one JSON part and at most one file. */
const MAX_PARTS = 2;
/** Of one part. The other parser's limits are higher, for bytes and for lines. */
const MAX_HEADER_BYTES = 4_096;

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** RFC 2046 allows 70 characters. */
const CONTENT_TYPE = new RegExp(`^multipart/form-data; ?boundary=(?:"([\\w'()+,./:=? -]{1,70})"|(${TOKEN}))$`, "i");
const HEADER_LINE = new RegExp(`^(${TOKEN}):[ \\t]*([\\t\\x20-\\x7e\\x80-\\xff]*)$`);
const DISPOSITION = /^form-data; ?name="([^"\\]+)"(?:; ?filename="([^"\\]+)")?$/i;
/** Of a file: its parameters are ignored, but must be well-formed. */
const FILE_TYPE = new RegExp(`^(${TOKEN}/${TOKEN})(?:; ?${TOKEN}=(?:${TOKEN}|"[^"\\\\]*"))*$`);
/** Of a field: the charset counts. */
const FIELD_TYPE = new RegExp(`^(${TOKEN}/${TOKEN})(?:; ?charset=(?:utf-8|"utf-8"))?$`, "i");

const CRLF = Buffer.from("\r\n");
const HEADER_END = Buffer.from("\r\n\r\n");
const DASHES = Buffer.from("--");

/**
 * The parts of the form in their order; null if the form is written in another way, or malformed.
 * @param contentType the header of the request
 */
export function parsePlainForm(body: Buffer, contentType: string): PlainPart[] | null {
  const [, quoted, bare] = CONTENT_TYPE.exec(contentType) ?? [];
  const boundary = quoted ?? bare;
  if (boundary === undefined) return null;
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  // The first delimiter has no line break before it.
  if (!startsWith(body, 0, delimiter.subarray(CRLF.length))) return null;
  let at = delimiter.length - CRLF.length;
  const parts: PlainPart[] = [];
  while (!startsWith(body, at, DASHES)) {
    if (parts.length === MAX_PARTS || !startsWith(body, at, CRLF)) return null;
    const start = at + CRLF.length;
    const headerEnd = body.indexOf(HEADER_END, start);
    if (headerEnd < 0 || headerEnd - start > MAX_HEADER_BYTES) return null;
    const bytesStart = headerEnd + HEADER_END.length;
    // From the start of the header: a delimiter within it makes another form of it.
    const end = body.indexOf(delimiter, at);
    if (end < bytesStart) return null;
    const part = parsePart(body.toString("latin1", start, headerEnd), body.subarray(bytesStart, end));
    if (part === null) return null;
    parts.push(part);
    at = end + delimiter.length;
  }
  // Behind the end nothing counts, except that another delimiter would announce a part that is dropped.
  return body.includes(delimiter, at) ? null : parts;
}

const startsWith = (body: Buffer, at: number, bytes: Buffer): boolean =>
  body.length - at >= bytes.length && bytes.compare(body, at, at + bytes.length) === 0;

/** @param header the lines of the part's header, in Latin-1 */
function parsePart(header: string, bytes: Buffer): PlainPart | null {
  let disposition: string | undefined;
  let contentType: string | undefined;
  for (const line of header.split("\r\n")) {
    const [, name, value] = HEADER_LINE.exec(line) ?? [];
    if (name === undefined) return null;
    // Of two headers with a name the first counts.
    if (/^content-disposition$/i.test(name)) disposition ??= value;
    else if (/^content-type$/i.test(name)) contentType ??= value;
  }
  const [, name, path] = DISPOSITION.exec(disposition ?? "") ?? [];
  if (name === undefined) return null;
  const [, type] = (path === undefined ? FIELD_TYPE : FILE_TYPE).exec(contentType ?? "text/plain") ?? [];
  if (type === undefined) return null;
  const mimeType = type.toLowerCase();
  if (path === undefined) {
    const isText = mimeType !== "application/octet-stream" && isUtf8(bytes);
    return isText ? { name: decodeUtf8(name), filename: null, mimeType, bytes } : null;
  }
  const filename = lastSegment(decodeUtf8(path));
  return filename === "" ? null : { name: decodeUtf8(name), filename: unescapeName(filename), mimeType, bytes };
}

/** Text whose bytes were read as Latin-1. */
const decodeUtf8 = (latin1: string): string =>
  /^[\x20-\x7e]*$/.test(latin1) ? latin1 : Buffer.from(latin1, "latin1").toString("utf8");

/** Empty for a path without one. */
function lastSegment(path: string): string {
  const segment = path.slice(path.lastIndexOf("/") + 1);
  return segment === "." || segment === ".." ? "" : segment;
}

/** Undoes what browsers do to quotes and line breaks in names (HTML standard, multipart/form-data encoding). */
const unescapeName = (name: string): string =>
  name.includes("%")
    ? name.replace(/%0a|%0d|%22/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)))
    : name;
