/**
 * Names of members of a package. Each is a relative path of harmless parts, whatever somebody called an upload: it
 * stays below the directory where it is unpacked, on every system, and no two things share a name.
 */

/** Bytes of an uploaded name that are kept: with the directory before it well below what file systems allow. */
const KEPT_BYTES = 120;
/** Bytes of an ending that survives a cut. */
const ENDING_BYTES = 20;

/** Separators and what Windows keeps for itself; control characters; marks that turn the direction of what follows. */
const HARMFUL = /[/\\<>:"|?*\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|\p{Surrogate}/gu;
/** Names of devices on Windows, with whatever ending. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/** An uploaded name as one part of a path. */
export function safeFileName(name: string): string {
  const plain = name
    .normalize("NFC")
    .replace(HARMFUL, "_")
    // Neither hidden, nor "." or "..", nor something that Windows would cut.
    .replace(/^[.\s-]+/, (start) => "_".repeat(Math.min(start.length, 3)))
    .replace(/[.\s]+$/, "");
  const cut = cutTo(plain === "" ? "file" : plain);
  return DEVICE.test(cut) ? `_${cut}` : cut;
}

/** The name with its ending, in at most KEPT_BYTES bytes of UTF-8; characters are not torn. */
function cutTo(name: string): string {
  if (Buffer.byteLength(name) <= KEPT_BYTES) return name;
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 && Buffer.byteLength(name.slice(dot)) <= ENDING_BYTES ? name.slice(dot) : "";
  let stem = "";
  let room = KEPT_BYTES - Buffer.byteLength(ending);
  for (const character of name) {
    room -= Buffer.byteLength(character);
    if (room < 0) break;
    stem += character;
  }
  return stem.trimEnd() + ending;
}

/**
 * Where the content with this digest lies. Content decides, so that a file that was attached many times is there once,
 * and names that become the same, also on a disk that does not tell upper from lower case, can only be names of the
 * same bytes.
 */
export const evidenceFileName = (digest: string, filename: string | null): string =>
  `evidence/${digest}/${safeFileName(filename ?? "file")}`;

/** Names of policies, types and templates have a grammar of their own; `~` and dots are all that is odd in it. */
export const policyMember = (name: string, version: number): string => `policies/${safeFileName(name)}/v${version}.yml`;
export const typeMember = (name: string, version: number): string =>
  `custom-types/${safeFileName(name)}/v${version}.schema.json`;
export const templateMember = (publicId: string): string => `templates/${publicId}.yml`;
