// Flow templates: YAML text in, expectations out, or every mistake with its position (semantics 2.1, messages 12).
//
// The walk visits only the known shape of a template, so cyclic aliases cannot loop, and counts what it reads, so
// multiplying aliases end too. Every problem is one short line. No text makes these functions throw.
import { isMap, isScalar, isSeq, stringify } from "yaml";
import { isTypeWord, TYPE_WORD, TYPE_WORDS_TEXT, typeWordOf } from "../attestation/kinds.ts";
import type { FileProblem } from "../policy/diagnostics.ts";
import { excerpt } from "../text/excerpt.ts";
import { ATTESTATION_NAME, matches, MAX_NAME_CHARS, REFERENCE_NAME } from "../names.ts";
import { compareByPosition } from "../text/source-position.ts";
import { isNullNode, readYaml, describeNode, describeUnknownKey } from "../text/yaml.ts";
import type { SourcePosition } from "../text/source-position.ts";
import type { YamlLimits, YamlProblem, YamlText } from "../text/yaml.ts";

export type TemplateAttestation = { name: string; type: string };
type TemplateArtifact = { name: string; attestations: TemplateAttestation[] };
/** The expectations of a flow or trail. Lists keep the order of the text, which is the order of status entries. */
export type Template = {
  version: 1;
  trail: { attestations: TemplateAttestation[]; artifacts: TemplateArtifact[] };
};
/** A mistake in a template. `line` and `column` start at 1; `location` is a dotted path or `template_file`. */
type TemplateProblem = { location: string; problem: string } & SourcePosition;

/** The template of a flow created without one (semantics 2.1). */
export const EMPTY_TEMPLATE_TEXT = "version: 1";

/** More than a hundred problems add nothing, and the response must stay readable. */
const MAX_PROBLEMS = 100;
/**
 * Artifacts and attestations in total, counted because nested aliases multiply. Every report to a trail evaluates all
 * of them, and stores and shows some 200 bytes for each.
 */
export const MAX_TEMPLATE_ENTRIES = 2_000;
/** The limit of earlier versions, whose templates must still load. */
const MAX_STORED_ENTRIES = 25_000;
/** `custom:` and the longest name of a type. */
const MAX_TYPE_CHARS = "custom:".length + MAX_NAME_CHARS;
/**
 * Far more than the entries of a template need, and parsed in about a second; the size limit of the file alone (10 MB)
 * would let one request take most of a minute. A valid template nests seven levels deep. The higher limits on nesting
 * and value length give invalid templates a precise refusal.
 */
const LIMITS: YamlLimits = {
  tokens: 100_000,
  nesting: 64,
  problems: MAX_PROBLEMS,
  charsPerToken: 64,
  scalarChars: 65_536,
  blanks: 200_000,
};
/** The limits of earlier versions. */
export const STORED_TEMPLATE_LIMITS: YamlLimits = { tokens: 200_000, nesting: 64, problems: MAX_PROBLEMS };
/** The location of a problem that concerns the text as a whole (messages 12). */
const WHOLE_FILE = "template_file";

/** Problems of a text that is nevertheless valid YAML, so that its content is checked as well. */
const READABLE: readonly YamlProblem["kind"][] = ["documents", "tag", "anchor"];

/** Texts of templates for problems that the YAML reader reports. */
const YAML_PROBLEM_TEXTS: Partial<Record<YamlProblem["kind"], string>> = {
  nesting: `Nested deeper than ${LIMITS.nesting} levels`,
  documents: "Expected a single YAML document, but another one begins here",
};

type Result = { template: Template; problems: null } | { template: null; problems: TemplateProblem[] };

/**
 * Parses the text of a template (semantics 2.1). It reports all mistakes of the content at once, in text order, at most
 * a hundred; for a text that is not YAML it reports one problem, the earliest, at `template_file` (messages 12). Never
 * throws. As in JSON Schema, `1.0` is the integer 1. Takes up to 20 ms for 8 KB, and seconds for megabytes.
 * @param text the uploaded file, decoded
 * @param options.isStored the text was accepted before and is only loaded, so the limits of earlier versions apply
 */
export function parseTemplate(text: string, { isStored = false }: { isStored?: boolean } = {}): Result {
  const source = readYaml(text, { limits: isStored ? STORED_TEMPLATE_LIMITS : LIMITS });
  const unreadable = source.problems.find(({ kind }) => !READABLE.includes(kind));
  if (unreadable) return { template: null, problems: [fromYamlProblem(unreadable)] };
  // The walk reports an alias without an anchor under its path: no part of a template can have one.
  const problems = source.problems
    .filter(({ kind }) => kind !== "anchor")
    .slice(0, MAX_PROBLEMS)
    .map(fromYamlProblem);
  const maxEntries = isStored ? MAX_STORED_ENTRIES : MAX_TEMPLATE_ENTRIES;
  return checkTemplate({ source, problems, isStored, maxEntries, entriesRead: 0 });
}

/**
 * The text of the refusal: lines separated by line feeds, without one at the end (messages 12). The first line is
 * plural even for one problem, because clients search for it.
 */
export function renderTemplateProblems(problems: readonly TemplateProblem[]): string {
  const lines = problems.map(
    ({ location, problem, line, column }) => `${location}\n  ${problem} (line ${line}, column ${column})`,
  );
  return [`${problems.length} validation errors for Template`, ...lines].join("\n");
}

/** The problems one by one, for callers that show each at its place. The path of the whole text is "". */
export const listTemplateProblems = (problems: readonly TemplateProblem[]): FileProblem[] =>
  problems.map(({ location, problem, line, column }) => ({
    line,
    column,
    path: location === WHOLE_FILE ? "" : location,
    message: problem,
  }));

/**
 * The template of a flow created with a list of names, and its text (semantics 2.1, legacy template): one artifact
 * called `artifact` that expects the other names, each once, of any type. The text begins with `version: `, by which
 * the command-line client distinguishes templates from older lists (wire-contract 3).
 * @param names valid attestation names; they are not checked here
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
 * parseTemplate accepts, but cannot require unique names within a list.
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
        type: { type: "string", maxLength: MAX_TYPE_CHARS, pattern: TYPE_WORD },
      },
    },
  },
} as const;

// --- Content ---------------------------------------------------------------------------------------------------------

type Entry = { key: unknown; value: unknown };
/** A node and its dotted path. */
type Located = { node: unknown; path: string };

/** The state of one walk over a template. */
type Walk = {
  readonly source: YamlText;
  readonly problems: TemplateProblem[];
  readonly isStored: boolean;
  readonly maxEntries: number;
  entriesRead: number;
};

function fromYamlProblem({ kind, text, line, column }: YamlProblem): TemplateProblem {
  if (kind === "size")
    return { location: WHOLE_FILE, problem: text.charAt(0).toUpperCase() + text.slice(1), line, column };
  const hint = kind === "alias" ? ' (to accept any type write "*" in quotes)' : "";
  return { location: WHOLE_FILE, problem: YAML_PROBLEM_TEXTS[kind] ?? `Not YAML: ${text}${hint}`, line, column };
}

/** Walks only the known shape of a template; anything out of place is reported and not entered. */
function checkTemplate(walk: Walk): Result {
  const { source, problems } = walk;
  const template: Template = { version: 1, trail: { attestations: [], artifacts: [] } };
  const root = readMap(walk, { node: source.root, path: WHOLE_FILE }, ["version", "trail"]);
  const version = root?.get("version");
  if (version !== undefined) {
    const value = source.resolve(version.value);
    if (!isScalar(value) || value.value !== 1)
      report(walk, { node: version.value, path: "version" }, `Input should be 1 [input: ${describeNode(value)}]`);
  }
  const trail = root?.get("trail");
  if (trail !== undefined && !isNullNode(source.resolve(trail.value))) {
    const entries = readMap(walk, { node: trail.value, path: "trail" }, ["attestations", "artifacts"]);
    const attestations = { entry: entries?.get("attestations"), path: "trail.attestations" };
    const artifacts = { entry: entries?.get("artifacts"), path: "trail.artifacts" };
    template.trail.attestations = readList(walk, attestations, readAttestation);
    template.trail.artifacts = readList(walk, artifacts, readArtifact);
  }
  if (problems.length === 0) return { template, problems: null };
  problems.sort(compareByPosition);
  return { template: null, problems };
}

const isFull = ({ problems }: Walk): boolean => problems.length >= MAX_PROBLEMS;

function report(walk: Walk, { node, path }: Located, problem: string): null {
  if (!isFull(walk)) walk.problems.push({ location: path, problem, ...walk.source.positionOf(node) });
  return null;
}

/** The known entries of a map, or null after reporting that there is no map. Reports unknown and repeated keys. */
function readMap(walk: Walk, at: Located, known: readonly string[]): Map<string, Entry> | null {
  const { resolve } = walk.source;
  const map = resolve(at.node);
  if (!isMap(map)) return report(walk, at, wrongType("object", map));
  const entries = new Map<string, Entry>();
  const seen = new Set<string>();
  for (const { key, value } of map.items) {
    if (isFull(walk)) break;
    const name = formatKey(resolve(key));
    const path = at.path === WHOLE_FILE ? excerpt(name) : `${at.path}.${excerpt(name)}`;
    const atKey = { node: key, path };
    if (seen.has(name)) report(walk, atKey, "Key is given more than once");
    else if (known.includes(name)) entries.set(name, { key, value });
    else report(walk, atKey, describeUnknownKey(name, resolve(value), known));
    seen.add(name);
  }
  return entries;
}

/**
 * A field that holds a text. `owner` is the node that should have it, where its absence is reported; `possible` says
 * then which texts it may hold.
 */
type TextField = { entry: Entry | undefined; path: string; maxChars: number; owner: unknown; possible?: string };

/** A required text, or null after reporting that it is absent, not a text, or refused by `findProblem`. */
function readText(
  walk: Walk,
  { entry, path, maxChars, owner, possible }: TextField,
  findProblem: (text: string) => string | null,
): string | null {
  if (entry === undefined)
    return report(walk, { node: owner, path }, `Field required${possible === undefined ? "" : `: write ${possible}`}`);
  const at = { node: entry.value, path };
  const scalar = walk.source.resolve(entry.value);
  if (!isScalar(scalar) || typeof scalar.value !== "string") return report(walk, at, wrongType("string", scalar));
  const isTooLong = scalar.value.length > maxChars && !walk.isStored;
  const problem = isTooLong
    ? `String should have at most ${maxChars} characters [input: ${excerpt(scalar.value)}]`
    : findProblem(scalar.value);
  return problem === null ? scalar.value : report(walk, at, problem);
}

/** An optional list with unique names. `read` reports its own mistakes and returns null for an invalid item. */
function readList<T extends { name: string }>(
  walk: Walk,
  { entry, path }: { entry: Entry | undefined; path: string },
  read: (walk: Walk, at: Located) => T | null,
): T[] {
  if (entry === undefined) return [];
  const at = { node: entry.value, path };
  const list = walk.source.resolve(entry.value);
  if (!isSeq(list)) {
    report(walk, at, wrongType("list", list));
    return [];
  }
  const { maxEntries } = walk;
  const items: T[] = [];
  const names = new Set<string>();
  for (const [index, node] of list.items.entries()) {
    if (isFull(walk) || walk.entriesRead > maxEntries) break;
    if (++walk.entriesRead > maxEntries) report(walk, at, `Template has more than ${maxEntries} entries`);
    const item = read(walk, { node, path: `${path}.${index}` });
    if (item === null) continue;
    if (names.has(item.name)) {
      const problem = `Name is used more than once in this list [input: ${excerpt(item.name)}]`;
      report(walk, { node, path: `${path}.${index}.name` }, problem);
    }
    names.add(item.name);
    items.push(item);
  }
  return items;
}

function readAttestation(walk: Walk, at: Located): TemplateAttestation | null {
  const entries = readMap(walk, at, ["name", "type"]);
  if (entries === null) return null;
  const name = readName(walk, { ...at, entry: entries.get("name") }, ATTESTATION_NAME);
  const type = readText(
    walk,
    {
      owner: at.node,
      entry: entries.get("type"),
      path: `${at.path}.type`,
      maxChars: MAX_TYPE_CHARS,
      possible: TYPE_WORDS_TEXT,
    },
    findTypeProblem,
  );
  // A valid name takes part in the search for duplicates even if its type is invalid; the template is refused anyway.
  return name === null ? null : { name, type: typeWordOf(type ?? "") };
}

function readArtifact(walk: Walk, at: Located): TemplateArtifact | null {
  const entries = readMap(walk, at, ["name", "attestations"]);
  if (entries === null) return null;
  const name = readName(walk, { ...at, entry: entries.get("name") }, REFERENCE_NAME);
  const list = { entry: entries.get("attestations"), path: `${at.path}.attestations` };
  const attestations = readList(walk, list, readAttestation);
  return name === null ? null : { name, attestations };
}

function readName(
  walk: Walk,
  { node, path, entry }: Located & { entry: Entry | undefined },
  pattern: string,
): string | null {
  return readText(walk, { owner: node, entry, path: `${path}.name`, maxChars: MAX_NAME_CHARS }, (name) => {
    if (name === "") return "String should have at least 1 character [input: ]";
    return matches(pattern, name) ? null : `String should match pattern '${pattern}' [input: ${excerpt(name)}]`;
  });
}

function findTypeProblem(type: string): string | null {
  return isTypeWord(type) ? null : `Input should be ${TYPE_WORDS_TEXT} [input: ${excerpt(type)}]`;
}

function wrongType(expected: string, node: unknown): string {
  return `Input should be a valid ${expected} [input: ${describeNode(node)}]`;
}

function formatKey(node: unknown): string {
  return isScalar(node) ? String(node.value) : describeNode(node);
}
