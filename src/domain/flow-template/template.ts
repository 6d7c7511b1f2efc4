// Flow templates: YAML text in, expectations out, or every mistake with its place (semantics 2.1, messages 12).
//
// The walk visits only the known shape of a template, so that cyclic aliases end by themselves, and counts what it
// reads, so that multiplying aliases end too. Every problem is one short line. Nothing here throws on any text.
import { isMap, isScalar, isSeq, stringify } from "yaml";
import { isTypeWord, TYPE_WORD, TYPE_WORDS_TEXT } from "../attestation/kinds.ts";
import { excerpt } from "../text/excerpt.ts";
import { ATTESTATION_NAME, matches, MAX_NAME_CHARS, REFERENCE_NAME } from "../names.ts";
import { compareByPosition, isNullNode, readYaml, describeNode } from "../text/yaml.ts";
import type { SourcePosition, YamlLimits, YamlProblem, YamlText } from "../text/yaml.ts";

export type TemplateAttestation = { name: string; type: string };
export type TemplateArtifact = { name: string; attestations: TemplateAttestation[] };
/** What a flow or trail expects. Lists keep the order of the text, which is the order of status entries. */
export type Template = {
  version: 1;
  trail: { attestations: TemplateAttestation[]; artifacts: TemplateArtifact[] };
};
/** A mistake in a template. `line` and `column` count from 1; the location is a dotted path, or `template_file`. */
export type TemplateProblem = { location: string; problem: string } & SourcePosition;

/** The template of a flow that was given none (semantics 2.1). */
export const EMPTY_TEMPLATE_TEXT = "version: 1";

/** Beyond a hundred mistakes the rest tells nothing new, and the answer has to stay readable. */
const MAX_PROBLEMS = 100;
/**
 * Artifacts and attestations in all: aliases upon aliases multiply. Every report to a trail evaluates all of them, and
 * stores and shows some 200 bytes for each.
 */
export const MAX_TEMPLATE_ENTRIES = 2_000;
/** As many as earlier versions took; their templates still load. */
const MAX_STORED_ENTRIES = 25_000;
/** `custom:` and the longest name of a type. */
const MAX_TYPE_CHARACTERS = "custom:".length + MAX_NAME_CHARS;
/**
 * Far more than the entries of a template need, read in about a second; the size limit of the file alone (10 MB) would
 * let one request take the better part of a minute. A right template nests seven deep; the rest is room for wrong ones,
 * so that they get a precise refusal, and so are the characters of a value.
 */
const LIMITS: YamlLimits = {
  tokens: 100_000,
  nesting: 64,
  problems: MAX_PROBLEMS,
  charsPerToken: 64,
  scalarChars: 65_536,
  blanks: 200_000,
};
/** What earlier versions of this program read. */
const STORED_LIMITS: YamlLimits = { tokens: 200_000, nesting: 64, problems: MAX_PROBLEMS };
/** Where a problem lies that belongs to the text as a whole (messages 12). */
const WHOLE_FILE = "template_file";

/** Problems of a text that is YAML all the same, so that its content can be judged too. */
const READABLE: readonly YamlProblem["kind"][] = ["documents", "tag", "anchor"];

/** What the reader of YAML finds, where templates have words of their own for it. */
const WORDS: Partial<Record<YamlProblem["kind"], string>> = {
  nesting: `Nested deeper than ${LIMITS.nesting} levels`,
  documents: "Expected a single YAML document, but another one begins here",
};

type Result = { template: Template; problems: null } | { template: null; problems: TemplateProblem[] };

/**
 * Reads the text of a template (semantics 2.1). All mistakes of the content are reported at once, in the order of the
 * text, at most a hundred; a text that is no YAML is one problem, the earliest, at `template_file` (messages 12).
 * Never throws. As in JSON Schema, `1.0` is the integer 1. Takes up to 20 ms for 8 KB, and seconds for megabytes.
 * @param text the file as uploaded, decoded
 * @param stored whether the text was accepted before and is only loaded: what earlier versions took is never too large
 */
export function parseTemplate(text: string, stored = false): Result {
  const source = readYaml(text, { limits: stored ? STORED_LIMITS : LIMITS });
  const unreadable = source.problems.find(({ kind }) => !READABLE.includes(kind));
  if (unreadable) return { template: null, problems: [ofText(unreadable)] };
  // An alias without an anchor is reported by its path: wherever it stands, no template can have one.
  const problems = source.problems
    .filter(({ kind }) => kind !== "anchor")
    .slice(0, MAX_PROBLEMS)
    .map(ofText);
  return checkTemplate(source, stored, problems);
}

/**
 * The text of the refusal, several lines separated by line feeds and none at the end (messages 12). The first line is
 * in the plural for one problem too: clients search for it.
 */
export function renderTemplateProblems(problems: readonly TemplateProblem[]): string {
  const lines = problems.map(
    ({ location, problem, line, column }) => `${location}\n  ${problem} (line ${line}, column ${column})`,
  );
  return [`${problems.length} validation errors for Template`, ...lines].join("\n");
}

/**
 * The template, and its text, for a flow created with a list of names (semantics 2.1, legacy template): one artifact
 * called `artifact` that expects the other names, each once, of any type. Begins with `version: `, by which the
 * command-line client tells templates from older lists (wire-contract 3). The names are not checked: the caller has
 * found them to be names of attestations.
 */
export function buildLegacyTemplate(names: readonly string[]): { text: string; template: Template } {
  const attestations = [...new Set(names)].filter((name) => name !== "artifact").map((name) => ({ name, type: "*" }));
  const artifacts = [{ name: "artifact", attestations }];
  const text = stringify({ version: 1, trail: { artifacts } }, { lineWidth: 0 });
  return { text, template: { version: 1, trail: { attestations: [], artifacts } } };
}

const LIST_OF_ATTESTATIONS = { type: "array", items: { $ref: "#/$defs/attestation" }, default: [] };

/**
 * JSON Schema 2020-12 of templates, served at `/schemas/flow-template/v1` (wire-contract 3). It accepts what
 * parseTemplate accepts, except that JSON Schema cannot say that names are unique within a list.
 */
export const TEMPLATE_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "Flow template, version 1",
  type: "object",
  additionalProperties: false,
  properties: {
    version: { type: "integer", const: 1, default: 1 },
    trail: {
      description: "What every trail of the flow is expected to hold.",
      anyOf: [{ type: "null" }, { $ref: "#/$defs/trail" }],
    },
  },
  $defs: {
    trail: {
      type: "object",
      additionalProperties: false,
      properties: {
        attestations: {
          ...LIST_OF_ATTESTATIONS,
          description: "Attestations of the trail itself; their names are unique.",
        },
        artifacts: {
          type: "array",
          items: { $ref: "#/$defs/artifact" },
          default: [],
          description: "Artifacts to be reported; their names are unique.",
        },
      },
    },
    artifact: {
      type: "object",
      additionalProperties: false,
      required: ["name"],
      properties: {
        name: { type: "string", minLength: 1, maxLength: MAX_NAME_CHARS, pattern: REFERENCE_NAME },
        attestations: {
          ...LIST_OF_ATTESTATIONS,
          description: "Attestations of this artifact; their names are unique.",
        },
      },
    },
    attestation: {
      type: "object",
      additionalProperties: false,
      required: ["name", "type"],
      properties: {
        name: { type: "string", minLength: 1, maxLength: MAX_NAME_CHARS, pattern: ATTESTATION_NAME },
        type: { type: "string", maxLength: MAX_TYPE_CHARACTERS, pattern: TYPE_WORD },
      },
    },
  },
} as const;

// --- Content ---------------------------------------------------------------------------------------------------------

type Entry = { key: unknown; value: unknown };
type Named = { name: string };

function ofText({ kind, text, line, column }: YamlProblem): TemplateProblem {
  if (kind === "size")
    return { location: WHOLE_FILE, problem: text.charAt(0).toUpperCase() + text.slice(1), line, column };
  const hint = kind === "alias" ? ' (to accept any type write "*" in quotes)' : "";
  return { location: WHOLE_FILE, problem: WORDS[kind] ?? `Not YAML: ${text}${hint}`, line, column };
}

/** Walks the known shape of a template only; whatever stands where it does not belong is reported and not entered. */
function checkTemplate(
  { root: rootNode, resolve, positionOf: place }: YamlText,
  stored: boolean,
  problems: TemplateProblem[],
): Result {
  const maxEntries = stored ? MAX_STORED_ENTRIES : MAX_TEMPLATE_ENTRIES;
  const full = (): boolean => problems.length >= MAX_PROBLEMS;
  let entriesRead = 0;

  const report = (location: string, node: unknown, problem: string): null => {
    if (!full()) problems.push({ location, problem, ...place(node) });
    return null;
  };

  /** The known entries of a map, null after a report if there is no map. Unknown and repeated keys are reported. */
  const readMap = (node: unknown, location: string, known: readonly string[]): Map<string, Entry> | null => {
    const map = resolve(node);
    if (!isMap(map)) return report(location, node, invalid("object", map));
    const entries = new Map<string, Entry>();
    const seen = new Set<string>();
    for (const { key, value } of map.items) {
      if (full()) break;
      const name = keyText(resolve(key));
      const path = location === WHOLE_FILE ? excerpt(name) : `${location}.${excerpt(name)}`;
      if (seen.has(name)) report(path, key, "Key is given more than once");
      else if (known.includes(name)) entries.set(name, { key, value });
      else report(path, key, `Extra inputs are not permitted [input: ${describeNode(resolve(value))}]`);
      seen.add(name);
    }
    return entries;
  };

  /** A required text, null after a report if it is absent, no text, or `fault` objects to it. */
  const readText = (
    owner: unknown,
    entry: Entry | undefined,
    location: string,
    most: number,
    fault: (text: string) => string | null,
  ): string | null => {
    if (entry === undefined) return report(location, owner, "Field required");
    const scalar = resolve(entry.value);
    if (!isScalar(scalar) || typeof scalar.value !== "string")
      return report(location, entry.value, invalid("string", scalar));
    const tooLong = scalar.value.length > most && !stored;
    const problem = tooLong
      ? `String should have at most ${most} characters [input: ${excerpt(scalar.value)}]`
      : fault(scalar.value);
    return problem === null ? scalar.value : report(location, entry.value, problem);
  };

  /** An optional list of things with unique names. `read` reports its own mistakes and yields null for a bad thing. */
  const readList = <T extends Named>(
    entry: Entry | undefined,
    location: string,
    read: (node: unknown, path: string) => T | null,
  ): T[] => {
    if (entry === undefined) return [];
    const list = resolve(entry.value);
    if (!isSeq(list)) {
      report(location, entry.value, invalid("list", list));
      return [];
    }
    const things: T[] = [];
    const names = new Set<string>();
    for (const [index, node] of list.items.entries()) {
      if (full() || entriesRead > maxEntries) break;
      if (++entriesRead > maxEntries) report(location, entry.value, `Template has more than ${maxEntries} entries`);
      const path = `${location}.${index}`;
      const thing = read(node, path);
      if (thing === null) continue;
      if (names.has(thing.name)) {
        report(`${path}.name`, node, `Name is used more than once in this list [input: ${excerpt(thing.name)}]`);
      }
      names.add(thing.name);
      things.push(thing);
    }
    return things;
  };

  const readAttestation = (node: unknown, path: string): TemplateAttestation | null => {
    const entries = readMap(node, path, ["name", "type"]);
    if (entries === null) return null;
    const name = readText(node, entries.get("name"), `${path}.name`, MAX_NAME_CHARS, nameFault(ATTESTATION_NAME));
    const type = readText(node, entries.get("type"), `${path}.type`, MAX_TYPE_CHARACTERS, typeFault);
    // A good name takes part in the search for duplicates even if the type beside it is wrong; the template is refused
    // anyway.
    return name === null ? null : { name, type: type ?? "" };
  };

  const readArtifact = (node: unknown, path: string): TemplateArtifact | null => {
    const entries = readMap(node, path, ["name", "attestations"]);
    if (entries === null) return null;
    const name = readText(node, entries.get("name"), `${path}.name`, MAX_NAME_CHARS, nameFault(REFERENCE_NAME));
    const attestations = readList(entries.get("attestations"), `${path}.attestations`, readAttestation);
    return name === null ? null : { name, attestations };
  };

  const template: Template = { version: 1, trail: { attestations: [], artifacts: [] } };
  const root = readMap(rootNode, WHOLE_FILE, ["version", "trail"]);
  const version = root?.get("version");
  if (version !== undefined) {
    const value = resolve(version.value);
    if (!isScalar(value) || value.value !== 1)
      report("version", version.value, `Input should be 1 [input: ${describeNode(value)}]`);
  }
  const trail = root?.get("trail");
  if (trail !== undefined && !isNullNode(resolve(trail.value))) {
    const entries = readMap(trail.value, "trail", ["attestations", "artifacts"]);
    template.trail.attestations = readList(entries?.get("attestations"), "trail.attestations", readAttestation);
    template.trail.artifacts = readList(entries?.get("artifacts"), "trail.artifacts", readArtifact);
  }
  if (problems.length === 0) return { template, problems: null };
  problems.sort(compareByPosition);
  return { template: null, problems };
}

function nameFault(pattern: string): (name: string) => string | null {
  return (name) => {
    if (name === "") return "String should have at least 1 character [input: ]";
    return matches(pattern, name) ? null : `String should match pattern '${pattern}' [input: ${excerpt(name)}]`;
  };
}

function typeFault(type: string): string | null {
  return isTypeWord(type) ? null : `Input should be ${TYPE_WORDS_TEXT} [input: ${excerpt(type)}]`;
}

function invalid(expected: string, node: unknown): string {
  return `Input should be a valid ${expected} [input: ${describeNode(node)}]`;
}

function keyText(node: unknown): string {
  if (isScalar(node)) return String(node.value);
  return describeNode(node);
}
