/** Evidence files of the kinds that pages preview: archives, texts, JSON and images. The same bytes in every run. */
import { crc32, deflateSync } from "node:zlib";
import { gzip } from "../archive/gzip.ts";
import { tar } from "../archive/tar.ts";
import type { FormFile } from "./steps.ts";

const evidence = (filename: string, type: string, content: string | Buffer): FormFile => ({
  name: "attachment_file",
  filename,
  content,
  type,
});

export const textEvidence = (filename: string, lines: readonly string[]): FormFile =>
  evidence(filename, "text/plain", `${lines.join("\n")}\n`);

export const jsonEvidence = (filename: string, value: unknown): FormFile =>
  evidence(filename, "application/json", `${JSON.stringify(value, null, 2)}\n`);

/** An archive as clients pack several paths. */
export function tgzEvidence(files: Readonly<Record<string, string>>): FormFile {
  const entries = Object.entries(files).map(([name, text]) => {
    const content = Buffer.from(text);
    return { name, size: content.length, mtime: 0, content: [content] };
  });
  return evidence("evidence.tgz", "application/gzip", Buffer.concat([...gzip(tar(entries))]));
}

const [WIDTH, HEIGHT] = [320, 200];

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const frame = Buffer.alloc(8);
  frame.writeUInt32BE(data.length);
  frame.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
}

/** A screenshot of a checkout whose button has slipped out of its box, as a browser test leaves it. */
export function imageEvidence(filename: string): FormFile {
  const boxes: readonly (readonly [left: number, top: number, right: number, bottom: number, grey: number])[] = [
    [0, 0, WIDTH, 28, 60],
    [24, 48, 296, 160, 225],
    [40, 64, 180, 74, 150],
    [40, 84, 250, 94, 185],
    [40, 104, 220, 114, 185],
    [210, 148, 314, 176, 90],
  ];
  const rows = Array.from({ length: HEIGHT }, (_, y) => {
    const row = Buffer.alloc(WIDTH + 1, 250);
    // Every row begins with its filter: none.
    row[0] = 0;
    for (const [left, top, right, bottom, grey] of boxes)
      if (y >= top && y < bottom) row.fill(grey, left + 1, right + 1);
    return row;
  });
  const header = Buffer.alloc(13);
  header.writeUInt32BE(WIDTH);
  header.writeUInt32BE(HEIGHT, 4);
  header[8] = 8;
  return evidence(
    filename,
    "image/png",
    Buffer.concat([
      Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
      pngChunk("IHDR", header),
      pngChunk("IDAT", deflateSync(Buffer.concat(rows))),
      pngChunk("IEND", Buffer.alloc(0)),
    ]),
  );
}
