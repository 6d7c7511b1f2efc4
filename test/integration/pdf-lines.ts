/**
 * Reads the text of a PDF that Chromium printed: objects with a table of their places, content compressed with zlib,
 * glyphs that a table of their font (ToUnicode) turns into text. Other programs write PDFs that it does not read.
 */
import { inflateSync } from "node:zlib";

/** An object without its stream, in Latin-1, and the stream. */
type PdfObject = { words: string; stream: Buffer | null };
/** How a font writes glyphs: bytes of one, and what each stands for. */
type Font = { bytes: number; textOf: ReadonlyMap<number, string> };

/** The lines of each page in the order of drawing; a line is what stands side by side, from left to right. */
export function readPdfLines(pdf: Buffer): string[][] {
  const objects = readObjects(pdf);
  const get = (id: number | undefined): PdfObject => {
    const found = id === undefined ? undefined : objects.get(id);
    if (!found) throw new Error(`the PDF has no object ${id}`);
    return found;
  };
  const fontOf = new Map<number, Font>();
  const readFont = (id: number): Font => {
    const { words } = get(id);
    const font = {
      bytes: words.includes("/Type0") ? 2 : 1,
      textOf: readGlyphs(textOfStream(get(refOf(words, "ToUnicode")))),
    };
    fontOf.set(id, font);
    return font;
  };
  const pagesOf = (id: number): PdfObject[] => {
    const object = get(id);
    return object.words.includes("/Type /Pages") ? refsOf(object.words, "Kids").flatMap(pagesOf) : [object];
  };
  const catalog = [...objects.values()].find(({ words }) => words.includes("/Type /Catalog"));
  return pagesOf(refOf(catalog?.words ?? "", "Pages")).map((page) => {
    const fonts = new Map(
      [...(/\/Font <<([^>]*)>>/.exec(page.words)?.[1] ?? "").matchAll(/\/(\w+) (\d+) 0 R/g)].map(([, name, id]) => [
        name as string,
        fontOf.get(Number(id)) ?? readFont(Number(id)),
      ]),
    );
    return readLines(textOfStream(get(refOf(page.words, "Contents"))), fonts);
  });
}

const refsOf = (words: string, key: string): number[] => {
  const list = new RegExp(`/${key} (?:\\[([^\\]]*)\\]|(\\d+ 0 R))`).exec(words);
  return [...(list?.[1] ?? list?.[2] ?? "").matchAll(/(\d+) 0 R/g)].map(([, id]) => Number(id));
};
function refOf(words: string, key: string): number {
  const [only, ...others] = refsOf(words, key);
  if (only === undefined || others.length > 0) throw new Error(`not one object as ${key}: ${words.slice(0, 200)}`);
  return only;
}

/** By the table at the end, because compressed bytes may look like the end of an object. */
function readObjects(pdf: Buffer): Map<number, PdfObject> {
  const text = pdf.toString("latin1");
  const table = text.slice(Number(/startxref\s+(\d+)\s+%%EOF\s*$/.exec(text)?.[1]));
  const places = [...table.matchAll(/^(\d{10}) \d{5} ([nf])/gm)];
  const objects = new Map<number, PdfObject>();
  for (const [id, [, place, kind]] of places.entries()) {
    if (kind === "f") continue;
    const start = Number(place);
    const end = text.slice(start).search(/\bstream\r?\n|\bendobj\b/) + start;
    const words = text.slice(start, end);
    const length = /\/Length (\d+)/.exec(words)?.[1];
    const begin = text.startsWith("stream", end) ? text.indexOf("\n", end) + 1 : null;
    const stream = begin === null ? null : pdf.subarray(begin, begin + Number(length));
    objects.set(id, { words, stream });
  }
  return objects;
}

function textOfStream({ words, stream }: PdfObject): string {
  if (stream === null) throw new Error(`no stream: ${words.slice(0, 200)}`);
  return (words.includes("/FlateDecode") ? inflateSync(stream) : stream).toString("latin1");
}

const fromHex = (hex: string): string => Buffer.from(hex, "hex").swap16().toString("utf16le");

/** The table of a font: single glyphs, and ranges of glyphs that follow each other as their characters do. */
function readGlyphs(table: string): Map<number, string> {
  const textOf = new Map<number, string>();
  for (const [, rows = ""] of table.matchAll(/beginbfchar\n(.*?)endbfchar/gs))
    for (const [, glyph = "", text = ""] of rows.matchAll(/<(\w+)> <(\w+)>/g))
      textOf.set(Number.parseInt(glyph, 16), fromHex(text));
  for (const [, rows = ""] of table.matchAll(/beginbfrange\n(.*?)endbfrange/gs))
    for (const [, first = "", last = "", text = ""] of rows.matchAll(/<(\w+)> <(\w+)> <(\w+)>/g)) {
      const from = Number.parseInt(first, 16);
      for (let glyph = from; glyph <= Number.parseInt(last, 16); glyph++)
        textOf.set(glyph, String.fromCharCode(Number.parseInt(text, 16) + glyph - from));
    }
  return textOf;
}

/** What the content of a page draws as text. A piece on another height, or to the left of the one before, is a line. */
function readLines(content: string, fonts: ReadonlyMap<string, Font>): string[] {
  const lines: string[] = [];
  let font: Font | undefined;
  let at = { x: 0, y: 0 };
  let drawn = { x: 0, y: 0 };
  const operations =
    /\/(\w+) [\d.]+ Tf|[\d.-]+ 0 0 [\d.-]+ ([\d.-]+) ([\d.-]+) Tm|([\d.-]+) ([\d.-]+) Td|<(\w*)> Tj|\bTJ\b/g;
  for (const [all, name, x, y, right, down, glyphs] of content.matchAll(operations)) {
    if (name !== undefined) font = fonts.get(name);
    else if (x !== undefined) at = { x: Number(x), y: Number(y) };
    else if (right !== undefined) at = { x: at.x + Number(right), y: at.y + Number(down) };
    else if (glyphs === undefined || font === undefined) throw new Error(`the page draws text with ${all}`);
    else {
      const text = readText(glyphs, font);
      if (at.y === drawn.y && at.x > drawn.x) lines.push((lines.pop() ?? "") + text);
      else lines.push(text);
      drawn = at;
    }
  }
  return lines;
}

function readText(glyphs: string, { bytes, textOf }: Font): string {
  const each = glyphs.match(new RegExp(`\\w{${bytes * 2}}`, "g")) ?? [];
  return each.map((glyph) => textOf.get(Number.parseInt(glyph, 16)) ?? "\ufffd").join("");
}
