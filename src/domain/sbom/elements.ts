/**
 * The minimum elements of a software bill of materials, and which of them one lacks. They are recommendations: what is
 * missing is a warning to the reader and never a verdict.
 *
 * CISA: 2025 Minimum Elements for a Software Bill of Materials (draft of August 2025).
 * BSI: TR-03183-2, version 2.1.0, sections 4 and 5.2.
 */
import type { SbomSummary } from "./summary.ts";

/** Elements of the document as a whole. */
type DocumentElement = "author" | "timestamp" | "tool" | "context" | "dependencies";
/** Elements of each component. */
export const COMPONENT_ELEMENTS = [
  "producer",
  "name",
  "version",
  "identifier",
  "hash",
  "sha512",
  "licence",
  "properties",
] as const;
export type ComponentElement = (typeof COMPONENT_ELEMENTS)[number];
type Element = "format" | "components" | DocumentElement | ComponentElement;

export const ASKERS = ["CISA", "BSI"] as const;
type Asker = (typeof ASKERS)[number];

/** In the order in which they are shown. */
const ELEMENTS: Readonly<Record<Element, { words: string; askers: readonly Asker[] }>> = {
  format: { words: "CycloneDX 1.6, SPDX 3.0.1, or a later version", askers: ["BSI"] },
  author: { words: "author of the SBOM", askers: ASKERS },
  timestamp: { words: "time of its creation", askers: ASKERS },
  tool: { words: "tool that made it", askers: ["CISA"] },
  context: { words: "lifecycle phase in which it was made", askers: ["CISA"] },
  components: { words: "components", askers: ASKERS },
  dependencies: { words: "dependencies between components", askers: ASKERS },
  producer: { words: "producer", askers: ASKERS },
  name: { words: "name", askers: ASKERS },
  version: { words: "version", askers: ASKERS },
  identifier: { words: "identifier such as a package URL", askers: ["CISA"] },
  hash: { words: "hash", askers: ["CISA"] },
  sha512: { words: "SHA-512 hash", askers: ["BSI"] },
  licence: { words: "licence", askers: ASKERS },
  properties: { words: "file name and whether it is executable, an archive or structured", askers: ["BSI"] },
};

/**
 * What is known of a document. null: whether it has the element does not follow from what was looked at, or the format
 * has no place for it.
 */
export type SbomFacts = Record<DocumentElement, boolean | null> & {
  components: number | null;
  /** How many components lack the element. */
  without: Record<ComponentElement, number | null>;
};

/** An element that is missing. `components`: how many lack it, null for an element of the whole document. */
type MissingElement = { element: string; words: string; asked_by: readonly Asker[]; components: number | null };
type ElementsCheck = {
  /** How many components the document has; null if that is not known. */
  components: number | null;
  missing: MissingElement[];
  /** Names of the elements that could not be looked at. */
  unknown: string[];
};

const UNKNOWN_COMPONENTS = Object.fromEntries(COMPONENT_ELEMENTS.map((element) => [element, null])) as Record<
  ComponentElement,
  null
>;

/** What the summary alone says of a document. */
const factsOfSummary = ({ createdAt, tools, packages }: SbomSummary): SbomFacts => ({
  author: null,
  timestamp: createdAt !== null,
  tool: tools.length > 0,
  context: null,
  dependencies: null,
  components: packages,
  without: UNKNOWN_COMPONENTS,
});

/** The oldest versions that BSI accepts. */
const OLDEST: Readonly<Record<string, readonly number[]>> = { cyclonedx: [1, 6], spdx: [3, 0, 1] };

/** null for a format that is neither. */
function isAcceptedFormat(format: string): boolean | null {
  const [, standard = "", version = ""] = /^([a-z]+)-(\d{1,4}(?:\.\d{1,4}){0,3})$/.exec(format) ?? [];
  const oldest = Object.hasOwn(OLDEST, standard) ? OLDEST[standard] : undefined;
  if (oldest === undefined) return null;
  const parts = version.split(".").map(Number);
  for (const [index, least] of oldest.entries()) {
    const part = parts[index] ?? 0;
    if (part !== least) return part > least;
  }
  return true;
}

/**
 * Which minimum elements are missing.
 * @param document what was read from the document itself; null where it was not read
 */
export function checkElements(summary: SbomSummary, document: SbomFacts | null): ElementsCheck {
  const facts = document ?? factsOfSummary(summary);
  const { components, without } = facts;
  const check: ElementsCheck = { components, missing: [], unknown: [] };
  const add = (element: Element, isThere: boolean | null, lacking: number | null = null): void => {
    const { words, askers } = ELEMENTS[element];
    if (isThere === null) check.unknown.push(words);
    else if (!isThere) check.missing.push({ element, words, asked_by: askers, components: lacking });
  };
  for (const element of Object.keys(ELEMENTS) as Element[]) {
    if (element === "format") add(element, isAcceptedFormat(summary.format));
    else if (element === "components") add(element, components === null ? null : components > 0);
    else if (isOfComponents(element)) {
      const lacking = without[element];
      add(element, lacking === null ? null : lacking === 0, lacking);
    } else add(element, facts[element]);
  }
  return check;
}

const isOfComponents = (element: Element): element is ComponentElement =>
  (COMPONENT_ELEMENTS as readonly string[]).includes(element);

/** What a check is based on, in one sentence. @param unread why the document was not read; null if it was */
export const describeBasis = (unread: string | null): string =>
  unread === null
    ? "The attached document was read."
    : `Only what the client reported was looked at: the document was not read, because ${unread}.`;

/** What is missing in lines for people, by who asks for it: `CISA: hash (12 of 318 components lack it)`. */
export function describeMissing({ components, missing }: ElementsCheck): string[] {
  const lines = new Map<string, string[]>();
  for (const { words, asked_by: askers, components: lacking } of missing) {
    const who = askers.join(" and ");
    const extent =
      lacking === null || components === null
        ? ""
        : ` (${formatCount(lacking)} of ${formatCount(components)} components lack it)`;
    lines.set(who, [...(lines.get(who) ?? []), `${words}${extent}`]);
  }
  return [...lines].map(([who, elements]) => `${who}: ${elements.join(", ")}`);
}

const formatCount = (count: number): string => count.toLocaleString("en-US");
