/** What is used of fontkit, the font engine of pdfkit. */
declare module "fontkit" {
  export type Font = { hasGlyphForCodePoint(codePoint: number): boolean };
  export function create(bytes: Uint8Array): Font;
}
