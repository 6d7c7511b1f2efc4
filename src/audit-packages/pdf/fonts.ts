/**
 * The fonts of the report, all of them shipped with the program: DejaVu for Latin, Greek, Cyrillic, Arabic, Hebrew and
 * symbols, and Noto for Chinese, Japanese and Korean. A character that no font has is shown as its code point, never as
 * an empty box.
 */
import { inflateSync } from "node:zlib";
import { create } from "fontkit";
import type { Font } from "fontkit";
import { readAsset } from "../../assets.ts";

export type Style = "plain" | "bold" | "mono";
/** `name` identifies the font within a document. */
export type Face = { name: string; font: Font };

const ASSETS = {
  plain: "fonts/dejavu/ttf/DejaVuSans.ttf",
  bold: "fonts/dejavu/ttf/DejaVuSans-Bold.ttf",
  mono: "fonts/dejavu/ttf/DejaVuSansMono.ttf",
  chinese: "fonts/noto-sc/files/noto-sans-sc-chinese-simplified-400-normal.woff",
  japanese: "fonts/noto-jp/files/noto-sans-jp-japanese-400-normal.woff",
  korean: "fonts/noto-kr/files/noto-sans-kr-korean-400-normal.woff",
} as const;
type FaceName = keyof typeof ASSETS;

const loadedFaces = new Map<FaceName, Face>();

/** A font, loaded on first use. */
function loadFace(name: FaceName): Face {
  const loaded = loadedFaces.get(name);
  if (loaded) return loaded;
  const bytes = readAsset(ASSETS[name]);
  const face = { name, font: create(ASSETS[name].endsWith(".woff") ? woffToSfnt(bytes) : bytes) };
  loadedFaces.set(name, face);
  return face;
}

/** Characters that may need one of the large fonts: Hangul, radicals, ideographs, kana, full-width forms. */
const EAST_ASIAN = new RegExp(
  "[\\u1100-\\u11ff\\u2e80-\\u9fff\\ua960-\\ua97f\\uac00-\\ud7ff\\uf900-\\ufaff\\ufe30-\\ufe4f\\uff00-\\uffef" +
    "\\u{1b000}-\\u{1b16f}\\u{20000}-\\u{3fffd}]",
  "u",
);
/** Japanese alone uses kana; a text with kana gets the Japanese forms of the shared ideographs. */
const KANA = /[\u3040-\u30ff]/;

/** The fonts for a text, in the order in which they are searched for each character. */
export function facesFor(text: string, style: Style): Face[] {
  const faces = [loadFace(style), ...(style === "plain" ? [] : [loadFace("plain")])];
  if (!EAST_ASIAN.test(text)) return faces;
  const order: FaceName[] = KANA.test(text) ? ["japanese", "chinese", "korean"] : ["chinese", "japanese", "korean"];
  return [...faces, ...order.map(loadFace)];
}

const WOFF_HEADER_BYTES = 44;
const WOFF_ENTRY_BYTES = 20;
const SFNT_HEADER_BYTES = 12;
const SFNT_ENTRY_BYTES = 16;

/**
 * The plain font in a WOFF file (W3C WOFF 1.0), which deflates each table separately. fontkit reads WOFF too, but
 * inflates a table again for every glyph.
 */
function woffToSfnt(woff: Buffer): Buffer {
  const count = woff.readUInt16BE(12);
  const tables = Array.from({ length: count }, (_, index) => {
    const entry = WOFF_HEADER_BYTES + index * WOFF_ENTRY_BYTES;
    const [offset, packed, size] = [
      woff.readUInt32BE(entry + 4),
      woff.readUInt32BE(entry + 8),
      woff.readUInt32BE(entry + 12),
    ];
    const stored = woff.subarray(offset, offset + packed);
    return {
      tag: woff.subarray(entry, entry + 4),
      sum: woff.readUInt32BE(entry + 16),
      bytes: packed < size ? inflateSync(stored) : stored,
    };
  });
  const head = Buffer.alloc(SFNT_HEADER_BYTES + count * SFNT_ENTRY_BYTES);
  head.writeUInt32BE(woff.readUInt32BE(4), 0);
  head.writeUInt16BE(count, 4);
  const power = 2 ** Math.floor(Math.log2(count));
  head.writeUInt16BE(power * 16, 6);
  head.writeUInt16BE(Math.log2(power), 8);
  head.writeUInt16BE((count - power) * 16, 10);
  const parts: Buffer[] = [head];
  let offset = head.length;
  for (const [index, { tag, sum, bytes }] of tables.entries()) {
    const entry = SFNT_HEADER_BYTES + index * SFNT_ENTRY_BYTES;
    tag.copy(head, entry);
    head.writeUInt32BE(sum, entry + 4);
    head.writeUInt32BE(offset, entry + 8);
    head.writeUInt32BE(bytes.length, entry + 12);
    const padding = Buffer.alloc((4 - (bytes.length % 4)) % 4);
    parts.push(bytes, padding);
    offset += bytes.length + padding.length;
  }
  return Buffer.concat(parts);
}
