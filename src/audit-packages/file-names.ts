/**
 * Member names of a package. Every name is a relative path of safe components, whatever an uploader called a file: it
 * unpacks below its directory on every operating system, and no two members share a name.
 */

/** Bytes kept of an uploaded name: with its directory, well below the limits of file systems. */
const MAX_NAME_BYTES = 120;
/** A file extension up to this length survives truncation. */
const MAX_EXTENSION_BYTES = 20;

/** Separators, characters reserved on Windows, control characters, and marks that change the writing direction. */
const UNSAFE = /[/\\<>:"|?*\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|\p{Surrogate}/gu;
/** Device names on Windows, with or without an extension. */
const WINDOWS_DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/** An uploaded name as one safe path component. */
function safeFileName(name: string): string {
  const safe = name
    .normalize("NFC")
    .replace(UNSAFE, "_")
    // Not hidden, not "." or "..", not an option of a command.
    .replace(/^[.\s-]+/, (start) => "_".repeat(Math.min(start.length, 3)))
    // Windows strips these.
    .replace(/[.\s]+$/, "");
  const short = truncateName(safe === "" ? "file" : safe);
  return WINDOWS_DEVICE.test(short) ? `_${short}` : short;
}

/** The name with its extension in at most MAX_NAME_BYTES bytes of UTF-8, without splitting a character. */
function truncateName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  const dot = name.lastIndexOf(".");
  const extension = dot > 0 && Buffer.byteLength(name.slice(dot)) <= MAX_EXTENSION_BYTES ? name.slice(dot) : "";
  let stem = "";
  let bytesLeft = MAX_NAME_BYTES - Buffer.byteLength(extension);
  for (const character of name) {
    bytesLeft -= Buffer.byteLength(character);
    if (bytesLeft < 0) break;
    stem += character;
  }
  return stem.trimEnd() + extension;
}

/**
 * The member name of an attached file. Its directory is the digest of the content, so a file that was attached many
 * times is included once, and names that collide after sanitizing, or on a case-insensitive file system, can only
 * belong to the same bytes.
 */
export const evidenceFileName = (digest: string, filename: string | null): string =>
  `evidence/${digest}/${safeFileName(filename ?? "file")}`;

// Names of policies and types are restricted by their grammar; only `~` and dots could be unsafe in them.
export const policyFileName = (name: string, version: number): string =>
  `policies/${safeFileName(name)}/v${version}.yml`;
export const typeFileName = (name: string, version: number): string =>
  `custom-types/${safeFileName(name)}/v${version}.schema.json`;
export const templateFileName = (publicId: string): string => `templates/${publicId}.yml`;
