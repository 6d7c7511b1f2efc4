/**
 * Pages of a PDF with a cursor that moves down: text layout, lines of text and plain shapes. All lengths are in points,
 * from the top left corner of the page.
 */
import PDFDocument from "pdfkit";
import type { Face, Style } from "./fonts.ts";
import { layOutLines } from "./text.ts";
import type { Line, Measure } from "./text.ts";

export const COLOR = {
  text: "#1c2733",
  dim: "#5b6b7b",
  rule: "#d5dce3",
  shade: "#f2f5f8",
  good: "#1a7f45",
  bad: "#b3261e",
  badShade: "#fdf0ee",
  open: "#8a5a00",
  unknown: "#5b6b7b",
  white: "#ffffff",
} as const;
export type Color = (typeof COLOR)[keyof typeof COLOR];

/** Left and right margin. */
export const MARGIN_PT = 48;
const TOP_PT = 74;
const BOTTOM_PT = 60;
/** Height of body text. */
export const BODY_PT = 9;
/** Height of a line, in multiples of the text height. */
export const LEADING = 1.35;
/** From the top of a line to its baseline, in multiples of the text height; the same for all fonts. */
const ASCENT = 0.95;
const RULE_PT = 0.6;
/** More lines than any caller's text has. */
const UNLIMITED_LINES = 1_000;

type LayoutOptions = { style?: Style; size?: number; width?: number; maxLines?: number };

export type Canvas = ReturnType<typeof createCanvas>;

/** @param at epoch seconds: the only time in the document, so that the same content gives the same bytes */
export function createCanvas(info: { title: string; subject: string; at: number }) {
  const doc = openDocument(info);
  doc.addPage();
  const width = doc.page.width - 2 * MARGIN_PT;
  const pageHeight = doc.page.height;
  let current: { face: Face | null; size: number } = { face: null, size: 0 };

  function useFont(face: Face, size: number): void {
    if (current.face === face && current.size === size) return;
    // pdfkit accepts a parsed font; its types declare files and bytes only.
    doc.font(face.font as never, face.name, size);
    current = { face, size };
  }

  const measure: Measure = ({ text, face, script }, size) => {
    useFont(face, size);
    return doc.widthOfString(text, textOptions(script));
  };

  const canvas = {
    /** Width between the margins. */
    width,
    pageHeight,
    /** Position of the cursor. */
    y: TOP_PT,

    addPage(): void {
      doc.addPage();
      canvas.y = TOP_PT;
    },

    /** Whether `height` more points fit on this page. */
    fits: (height: number): boolean => canvas.y + height <= pageHeight - BOTTOM_PT,

    /** Moves to the next page unless `height` points fit on this one. */
    reserve(height: number): void {
      if (!canvas.fits(height) && canvas.y > TOP_PT) canvas.addPage();
    },

    layOut: (
      text: string,
      { style = "plain", size = BODY_PT, width: lineWidth = width, maxLines = UNLIMITED_LINES }: LayoutOptions = {},
    ): Line[] => layOutLines(text, { style, size, width: lineWidth, maxLines, measure }),

    drawLine(line: Line, { x, y, size, color }: { x: number; y: number; size: number; color: Color }): void {
      let left = x;
      for (const { text, face, script, width: runWidth } of line) {
        useFont(face, size);
        doc.fillColor(color).text(text, left, y + size * ASCENT, { ...textOptions(script), baseline: "alphabetic" });
        left += runWidth;
      }
    },

    fillBox(box: { x: number; y: number; width: number; height: number; color: Color; radius?: number }): void {
      const { x, y, height, color, radius } = box;
      const shape =
        radius === undefined ? doc.rect(x, y, box.width, height) : doc.roundedRect(x, y, box.width, height, radius);
      shape.fillColor(color).fill();
    },

    /** A horizontal line between the margins. */
    drawRule(y: number): void {
      doc
        .moveTo(MARGIN_PT, y)
        .lineTo(MARGIN_PT + width, y)
        .lineWidth(RULE_PT)
        .strokeColor(COLOR.rule)
        .stroke();
    },

    /** Draws on every page, numbered from 1. */
    eachPage(draw: (page: number, count: number) => void): void {
      const { start, count } = doc.bufferedPageRange();
      for (let index = 0; index < count; index += 1) {
        doc.switchToPage(start + index);
        draw(index + 1, count);
      }
    },

    /** Ends the document. */
    toBytes(): Uint8Array {
      doc.end();
      const parts: Buffer[] = [];
      for (let part = doc.read() as Buffer | null; part !== null; part = doc.read() as Buffer | null) parts.push(part);
      return Buffer.concat(parts);
    },
  };
  return canvas;
}

function openDocument({ title, subject, at }: { title: string; subject: string; at: number }): PDFKit.PDFDocument {
  const time = new Date(at * 1000);
  return new PDFDocument({
    size: "A4",
    margin: 0,
    autoFirstPage: false,
    bufferPages: true,
    lang: "en",
    displayTitle: true,
    pdfVersion: "1.7",
    // No default font: the first text selects one of ours.
    font: "",
    info: { Title: title, Subject: subject, Creator: "Assay", Producer: "Assay", CreationDate: time, ModDate: time },
  });
}

// Given `features`, even none, pdfkit shapes a run as a whole; without, word by word, which reverses the word order of
// scripts written from right to left.
const textOptions = (script: string | null) => ({ lineBreak: false, ...(script === null ? {} : { features: [] }) });
