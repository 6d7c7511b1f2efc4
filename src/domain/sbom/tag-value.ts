/** SPDX 2 as tags and values: one `Tag: value` a line, in sections that begin with a name. */

type Package = {
  name: string;
  versionInfo?: string;
  supplier?: string;
  originator?: string;
  licenseConcluded?: string;
  licenseDeclared?: string;
  checksums: { algorithm: string; checksumValue: string }[];
  externalRefs: { referenceType: string }[];
};
/** As SPDX writes it in JSON, as far as the minimum elements need it. */
type Document = {
  creationInfo: { creators: string[]; created?: string };
  packages: Package[];
  relationships: { relationshipType: string }[];
};

const FIELDS = {
  PackageVersion: "versionInfo",
  PackageSupplier: "supplier",
  PackageOriginator: "originator",
  PackageLicenseConcluded: "licenseConcluded",
  PackageLicenseDeclared: "licenseDeclared",
} as const;

/** Sections that are not about a package. */
const OTHER_SECTIONS: ReadonlySet<string> = new Set(["FileName", "SnippetSPDXID", "LicenseID"]);

/** Packages, checksums, references, relationships and creators together: each takes up to 200 bytes of memory. */
const MAX_PARTS = 150_000;

/** null for a document with more parts than are read. */
export function readTagValues(text: string): Document | null {
  const document: Document = { creationInfo: { creators: [] }, packages: [], relationships: [] };
  let current: Package | null = null;
  let parts = 0;
  for (const [tag, value] of linesOf(text)) {
    if (PARTS.has(tag) && ++parts > MAX_PARTS) return null;
    if (tag === "PackageName") document.packages.push((current = { name: value, checksums: [], externalRefs: [] }));
    else if (OTHER_SECTIONS.has(tag)) current = null;
    else if (tag === "Creator") document.creationInfo.creators.push(value);
    else if (tag === "Created") document.creationInfo.created = value;
    else if (tag === "Relationship") document.relationships.push({ relationshipType: wordOf(value, 1) });
    else if (current !== null) addToPackage(current, tag, value);
  }
  return document;
}

const PARTS: ReadonlySet<string> = new Set([
  "PackageName",
  "PackageChecksum",
  "ExternalRef",
  "Relationship",
  "Creator",
]);

/** A word of a value, by its index. */
const wordOf = (value: string, index: number): string => value.split(/\s+/, index + 1)[index] ?? "";

function addToPackage(current: Package, tag: string, value: string): void {
  if (Object.hasOwn(FIELDS, tag)) current[FIELDS[tag as keyof typeof FIELDS]] = value;
  else if (tag === "PackageChecksum") {
    const [algorithm = "", checksumValue = ""] = value.split(/:\s*/, 2);
    current.checksums.push({ algorithm, checksumValue });
  } else if (tag === "ExternalRef") current.externalRefs.push({ referenceType: wordOf(value, 1) });
}

/** The tags with their values in order; a value of several lines stands in `<text>` and counts as its first line. */
function* linesOf(text: string): Generator<[tag: string, value: string], void, undefined> {
  let isInText = false;
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found === -1 ? text.length : found;
    const line = text.slice(start, end);
    start = end + 1;
    if (!isInText) {
      const colon = line.indexOf(":");
      if (colon > 0 && !line.startsWith("#")) yield [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    }
    if (line.includes("<text>")) isInText = true;
    if (line.includes("</text>")) isInText = false;
  }
}
