/** The header of a database file: what SQLite's file format (section 1.3) puts at the beginning of its first page. */

export const FILE_HEADER_BYTES = 100;

/** The fields that describe schema version and file layout. */
export type FileHeader = {
  schemaVersion: number;
  applicationId: number;
  pageSize: number;
  pages: number;
  freePages: number;
  /** Rises with every change of the first page; 32 bits. */
  changeCounter: number;
  autoVacuum: "none" | "full" | "incremental";
};

/** Reads a header of FILE_HEADER_BYTES. @returns null if it is not that of an SQLite database */
export function parseFileHeader(header: Buffer): FileHeader | null {
  if (header.toString("latin1", 0, 15) !== "SQLite format 3") return null;
  const field = (at: number): number => header.readUInt32BE(at);
  // The format encodes a page of 65,536 bytes as 1.
  const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  return {
    schemaVersion: field(60),
    applicationId: field(68),
    pageSize,
    pages: field(28),
    freePages: field(36),
    changeCounter: field(24),
    autoVacuum: field(52) === 0 ? "none" : field(64) === 0 ? "full" : "incremental",
  };
}
