/** Sizes and times as operators write them. */

export const KB = 1024;
export const MB = 1024 * KB;
export const GB = 1024 * MB;
export const TB = 1024 * GB;

const SIZE_UNITS: Readonly<Record<string, number>> = { B: 1, KB, MB, GB, TB };

/**
 * Bytes of a size such as 100MB; null for what is none from `least` to `most`. A unit is demanded: a bare 100 would be read as
 * bytes by one person and as megabytes by the next. A MB is 1,048,576 bytes (semantics 13, decision 111).
 */
export function parseSize(text: string, least: number, most: number): number | null {
  const match = /^(\d{1,15})(?:\.(\d{1,3}))? ?([KMGT]?B)$/i.exec(text);
  if (!match) return null;
  const [, whole, fraction, unit] = match;
  const bytes = Number(`${whole}.${fraction ?? 0}`) * (SIZE_UNITS[(unit ?? "").toUpperCase()] ?? 1);
  return Number.isSafeInteger(bytes) && bytes >= least && bytes <= most ? bytes : null;
}

/** Seconds of a duration such as 1h30m; null for what is none from `least` to `most`. */
export function parseDuration(text: string, least: number, most: number): number | null {
  const match = /^(?=\d)(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?$/.exec(text);
  if (!match) return null;
  const seconds = Number(match[1] ?? 0) * 3600 + Number(match[2] ?? 0) * 60 + Number(match[3] ?? 0);
  return seconds >= least && seconds <= most ? seconds : null;
}
