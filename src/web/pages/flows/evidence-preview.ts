/**
 * What a preview shows of an evidence file: text, JSON, an image, or the list of files in an archive. What the file is
 * follows from its bytes, never from what the client called it. Nothing is read beyond a bound.
 */
import { hash } from "node:crypto";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { indentText } from "../../../json/walk.ts";
import type { Download } from "../../../http/operation.ts";
import { formatNumber } from "../../components/state.ts";
import { Html, html } from "../../html.ts";
import type { Value } from "../../html.ts";
import type { RawAnswer } from "../../page/page.ts";
import type { Preferences } from "../../page/preferences.ts";
import { listTar } from "./evidence-archive.ts";
import type { ArchiveList } from "./evidence-archive.ts";

const KB = 1024;
const MB = 1024 * KB;
const MAX_TEXT_BYTES = 256 * KB;
const MAX_IMAGE_BYTES = 5 * MB;
/** Of an archive: compressed, and what that unpacks to. */
const MAX_ARCHIVE_BYTES = 16 * MB;
const MAX_UNPACKED_BYTES = 64 * MB;
const MAX_FILES = 200;
/** Enough to tell what a file is. */
const HEAD_BYTES = 1_024;

/** System colours, because a sandboxed frame can load no style sheet of this server; light or dark as the theme is. */
const STYLE =
  "body{margin:0;padding:12px 16px;font:12px/20px ui-monospace,SFMono-Regular,Menlo," +
  "Consolas,monospace;background:Canvas;color:CanvasText}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}" +
  "p{margin:0 0 12px;font:13px/20px system-ui,sans-serif}table{border-collapse:collapse;width:100%}" +
  "th,td{padding:4px 0;text-align:left;overflow-wrap:anywhere;border-bottom:1px solid GrayText}" +
  "th:last-child,td:last-child{text-align:right;padding-left:16px;white-space:nowrap}img{display:block;max-width:100%}";
const STYLE_SOURCE = `style-src 'sha256-${hash("sha256", STYLE, "base64")}'`;

type Theme = Preferences["theme"];

/** A small page of its own. @param theme that was chosen for the pages around it */
export function previewPage(
  title: string,
  body: Value,
  { theme, status = 200 }: { theme: Theme; status?: number },
): RawAnswer {
  const scheme = theme === "system" ? "light dark" : theme.startsWith("dark") ? "dark" : "light";
  const text = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="${scheme}"><title>${title}</title>
<style>${new Html(STYLE)}</style></head>
<body>${body}</body></html>
`.text;
  // The frame may not load anything from this server, so an image is part of its page.
  const sources = [STYLE_SOURCE, "img-src data:"];
  return { raw: { type: "text/html; charset=utf-8", body: text, sources, status } };
}

const IMAGES: readonly (readonly [type: string, starts: RegExp])[] = [
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF....WEBP/s],
  ["image/avif", /^....ftypavif/s],
  ["image/svg+xml", /^(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^>]*-->\s*)*<svg[\s>]/],
];

/** Reads a file as far as its preview needs it. */
export async function previewOf({ download }: { download: Download }, theme: Theme): Promise<RawAnswer> {
  return previewPage(download.filename, await contentOf(download), { theme });
}

async function contentOf(download: Download): Promise<Html> {
  if (download.size === 0) return html`<p>The file is empty.</p>`;
  const head = await readBytes(download, HEAD_BYTES);
  const start = head.toString("latin1");
  const image = IMAGES.find(([, pattern]) => pattern.test(start));
  if (image) return imagePreview(download, image[0]);
  if (start.startsWith("\x1f\x8b")) return archivePreview(download, "gzip");
  if (start.slice(257, 262) === "ustar") return archivePreview(download, "tar");
  return textPreview(download);
}

/** Drawings are images, too: their scripts do not run, and they can load nothing. */
async function imagePreview(download: Download, type: string): Promise<Html> {
  if (download.size > MAX_IMAGE_BYTES)
    return html`<p>The image has ${sizeText(download.size)}: too much for a preview.</p>`;
  const bytes = await readBytes(download, download.size);
  const address = new Html(`data:${type};base64,${bytes.toString("base64")}`);
  return html`<img alt="${download.filename}" src="${address}">`;
}

async function textPreview(download: Download): Promise<Html> {
  const { size } = download;
  const bytes = await readBytes(download, MAX_TEXT_BYTES);
  const text = decode(bytes);
  if (text === null) return html`<p>This is not text, an image or a tar archive. Download it to look at it.</p>`;
  if (size > bytes.length)
    return html`<p>The first ${sizeText(bytes.length)} of ${sizeText(size)}.</p><pre>${text}</pre>`;
  return html`<pre>${indented(text)}</pre>`;
}

/** null for bytes that are not text in UTF-8. A character that the bound cuts is left out. */
function decode(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}

/** JSON with indentation, and with everything else as it is in the file; any other text unchanged. */
function indented(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return indentText(text);
}

async function archivePreview(download: Download, kind: "gzip" | "tar"): Promise<Html> {
  const source = await openBytes(download, MAX_ARCHIVE_BYTES);
  const list = await listArchive(source, kind);
  if (list === null || (list.files.length === 0 && !list.isWhole))
    return html`<p>This compressed file is not a tar archive. Download it to look at it.</p>`;
  return fileTable(list);
}

/** null for a stream that cannot be unpacked. */
async function listArchive(source: Readable, kind: "gzip" | "tar"): Promise<ArchiveList | null> {
  const unpacked = kind === "gzip" ? source.pipe(createGunzip()) : source;
  source.on("error", (error) => unpacked.destroy(error));
  try {
    return await listTar(unpacked, { files: MAX_FILES, bytes: MAX_UNPACKED_BYTES });
  } catch {
    return null;
  } finally {
    source.destroy();
    unpacked.destroy();
  }
}

function fileTable({ files, isWhole }: ArchiveList): Html {
  const rows = files.map(({ name, size }) => html`<tr><td>${name}</td><td>${sizeText(size)}</td></tr>`);
  return html`<p>${formatNumber(files.length)} ${files.length === 1 ? "file" : "files"}${
    !isWhole && ", and more that are not listed here"
  }</p><table><thead><tr><th scope="col">File</th><th scope="col">Size</th></tr></thead><tbody>${rows}</tbody></table>`;
}

const openBytes = ({ open, size }: Download, max: number): Promise<Readable> =>
  open(size <= max ? null : { start: 0, end: max - 1 });

/** The first bytes of the file. */
async function readBytes(download: Download, max: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of await openBytes(download, max)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** `48 KB`. */
export function sizeText(bytes: number): string {
  if (bytes < KB) return `${bytes} bytes`;
  return bytes < MB ? `${Math.round(bytes / KB)} KB` : `${(bytes / MB).toFixed(1)} MB`;
}
