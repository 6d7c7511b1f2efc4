/**
 * Reads from a software bill of materials which minimum elements it has: CycloneDX as JSON, SPDX 2 as JSON or as tags
 * and values. Takes time and memory in proportion to the document, so large ones belong in a thread.
 */
import { isObject, isText } from "../stored-json.ts";
import { COMPONENT_ELEMENTS } from "./elements.ts";
import type { ComponentElement, SbomFacts } from "./elements.ts";
import { readTagValues } from "./tag-value.ts";

/** `unread`: why the document could not be read, as the end of a sentence about it. */
export type ReadDocument = { facts: SbomFacts } | { unread: string };

/** Of a document with more values than its reader has memory for. */
export const TOO_COMPLEX: ReadDocument = { unread: "it has more values than the server reads" };

type Json = Record<string, unknown>;
const objectOf = (value: unknown): Json => (isObject(value) ? value : {});
const objectsIn = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
const isStated = (value: unknown): boolean => isText(value) && value.trim() !== "";

export function readSbomDocument(bytes: Uint8Array): ReadDocument {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { unread: "it is not text in UTF-8" };
  }
  const start = text.slice(0, 200).trimStart();
  if (start.startsWith("<")) return { unread: "it is XML, which the server does not read" };
  if (start.startsWith("{")) return readJsonDocument(text);
  if (/^SPDXVersion:/m.test(text.slice(0, 65_536))) {
    const document = readTagValues(text);
    return document === null ? TOO_COMPLEX : { facts: factsOfSpdx(document) };
  }
  return { unread: "it is neither CycloneDX nor SPDX in a form that the server reads" };
}

function readJsonDocument(text: string): ReadDocument {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return { unread: "it is not valid JSON" };
  }
  if (!isObject(document)) return { unread: "it is not a JSON object" };
  if (document["bomFormat"] === "CycloneDX") return { facts: factsOfCycloneDx(document) };
  if (isText(document["spdxVersion"]) && document["spdxVersion"].startsWith("SPDX-2"))
    return { facts: factsOfSpdx(document) };
  return { unread: "it is JSON, but neither CycloneDX nor SPDX 2" };
}

/** Which elements a component has; null: the format has no place for it. */
type Has = Record<ComponentElement, boolean | null>;

function countComponents(all: Iterable<Has>): Pick<SbomFacts, "components" | "without"> {
  const without = Object.fromEntries(COMPONENT_ELEMENTS.map((element) => [element, 0])) as SbomFacts["without"];
  let components = 0;
  for (const has of all) {
    components += 1;
    for (const element of COMPONENT_ELEMENTS) {
      const lacking = without[element];
      if (has[element] === null) without[element] = null;
      else if (!has[element] && lacking !== null) without[element] = lacking + 1;
    }
  }
  return { components, without };
}

const hasName = (value: unknown): boolean => isStated(objectOf(value)["name"]);

/** CycloneDX 1.2 and later; the component that the document is about does not count as one of its components. */
function factsOfCycloneDx(document: Json): SbomFacts {
  const { authors, manufacturer, timestamp, tools, lifecycles } = objectOf(document["metadata"]);
  const { components, services } = objectOf(tools);
  const madeBy = [...objectsIn(tools), ...objectsIn(components), ...objectsIn(services)];
  return {
    author: [...objectsIn(authors), objectOf(manufacturer)].some(
      (one) => isStated(one["name"]) || isStated(one["email"]),
    ),
    timestamp: isStated(timestamp),
    tool: madeBy.some(hasName),
    context: objectsIn(lifecycles).length > 0,
    dependencies: objectsIn(document["dependencies"]).length > 0,
    ...countComponents(nestedComponents(document)),
  };
}

function* nestedComponents(document: Json): Generator<Has, void, undefined> {
  const open = objectsIn(document["components"]);
  while (open.length > 0) {
    const component = open.pop() as Json;
    for (const inner of objectsIn(component["components"])) open.push(inner);
    yield elementsOfComponent(component);
  }
}

const BSI_PROPERTIES = ["filename", "executable", "archive", "structured"].map((name) => `bsi:component:${name}`);

function elementsOfComponent(component: Json): Has {
  const hashes = objectsIn(component["hashes"]).filter(({ content }) => isStated(content));
  const properties = new Set(objectsIn(component["properties"]).map(({ name }) => name));
  return {
    producer:
      hasName(component["supplier"]) ||
      hasName(component["manufacturer"]) ||
      isStated(component["publisher"]) ||
      isStated(component["author"]) ||
      objectsIn(component["authors"]).some(hasName),
    name: isStated(component["name"]),
    version: isStated(component["version"]),
    identifier:
      isStated(component["purl"]) ||
      isStated(component["cpe"]) ||
      isObject(component["swid"]) ||
      ["omniborId", "swhid"].some((key) => Array.isArray(component[key]) && component[key].some(isStated)),
    hash: hashes.length > 0,
    sha512: hashes.some(({ alg }) => alg === "SHA-512"),
    licence: objectsIn(component["licenses"]).length > 0,
    properties: BSI_PROPERTIES.every((name) => properties.has(name)),
  };
}

/** `NOASSERTION` says that nothing is said. */
const isAsserted = (value: unknown): boolean => isStated(value) && value !== "NOASSERTION";

const IDENTIFIERS = /^(?:purl|cpe2[23]Type|swid|swh|gitoid)$/;

/** SPDX 2. It has no place for the lifecycle phase, nor for the properties that BSI asks for. */
function factsOfSpdx(document: Json): SbomFacts {
  const { creators, created } = objectOf(document["creationInfo"]);
  const named = Array.isArray(creators) ? creators.filter(isText) : [];
  return {
    author: named.some(
      (creator) => /^(?:Person|Organization):\s*\S/.test(creator) && !/:\s*anonymous\b/i.test(creator),
    ),
    timestamp: isStated(created),
    tool: named.some((creator) => /^Tool:\s*\S/.test(creator)),
    context: null,
    dependencies: objectsIn(document["relationships"]).some(
      ({ relationshipType: type }) => isText(type) && type !== "DESCRIBES" && type !== "DESCRIBED_BY",
    ),
    ...countComponents(objectsIn(document["packages"]).map(elementsOfPackage)),
  };
}

function elementsOfPackage(found: Json): Has {
  const checksums = objectsIn(found["checksums"]).filter(({ checksumValue }) => isStated(checksumValue));
  return {
    producer: isAsserted(found["supplier"]) || isAsserted(found["originator"]),
    name: isStated(found["name"]),
    version: isStated(found["versionInfo"]),
    identifier: objectsIn(found["externalRefs"]).some(
      ({ referenceType: type }) => isText(type) && IDENTIFIERS.test(type),
    ),
    hash: checksums.length > 0,
    sha512: checksums.some(({ algorithm }) => algorithm === "SHA512"),
    licence: isAsserted(found["licenseConcluded"]) || isAsserted(found["licenseDeclared"]),
    properties: null,
  };
}
