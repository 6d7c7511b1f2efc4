/** Which minimum elements an SBOM lacks, by what was reported about it and by the document itself. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readSbomDocument } from "../../../src/domain/sbom/document.ts";
import { checkElements, describeBasis, describeMissing } from "../../../src/domain/sbom/elements.ts";
import type { SbomFacts } from "../../../src/domain/sbom/elements.ts";
import { describeFormat, describeSubject, describeTools, readSbomSummary } from "../../../src/domain/sbom/summary.ts";

const test = suite("domain/sbom/elements");

const SUMMARY = readSbomSummary({
  format: "cyclonedx-1.6",
  original_fingerprint: "a".repeat(64),
  document: { created_at: "2026-01-31T12:00:00Z", tools: ["syft 1.18.0"], subject: { name: "app" }, package_count: 2 },
});
const names = (check: ReturnType<typeof checkElements>) => check.missing.map(({ element }) => element);
const read = (text: string | Uint8Array) => readSbomDocument(typeof text === "string" ? Buffer.from(text) : text);
function factsOf(document: unknown): SbomFacts {
  const found = read(typeof document === "string" ? document : JSON.stringify(document));
  if ("unread" in found) throw new Error(found.unread);
  return found.facts;
}

test("reads a summary of any shape", () => {
  const nothing = { format: "", createdAt: null, tools: [], subject: null, packages: null };
  for (const data of [null, 5, "text", [], {}, { format: 5, document: [] }, { document: { tools: "x", subject: [] } }])
    assert.equal(readSbomSummary(data), nothing, JSON.stringify(data));
  assert.equal(
    readSbomSummary({ format: "x", document: { subject: {}, package_count: 1.5, tools: [null, "", "a"] } }),
    {
      format: "x",
      createdAt: null,
      tools: ["a"],
      subject: { name: "", version: "", purl: "", sha256: "" },
      packages: null,
    },
  );
});

test("describes formats, tools and subjects", () => {
  assert.equal(["cyclonedx-1.6", "spdx-2.3", "swid-1", "CycloneDX", "constructor-1", ""].map(describeFormat), [
    "CycloneDX 1.6",
    "SPDX 2.3",
    "swid-1",
    "CycloneDX",
    "constructor-1",
    "",
  ]);
  assert.is(describeTools([]), "");
  assert.is(describeTools(["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
  const subject = { name: "app", version: "1.4", purl: "pkg:oci/app", sha256: "" };
  assert.is(describeSubject(subject), "app 1.4");
  assert.is(describeSubject({ ...subject, name: "" }), "pkg:oci/app 1.4");
  assert.is(describeSubject({ name: "", version: "", purl: "", sha256: "" }), "");
  assert.is(describeSubject(null), "");
});

test("says of a summary only what follows from it; the rest is not known", () => {
  const check = checkElements(SUMMARY, null);
  assert.equal({ ...check, unknown: check.unknown.length }, { components: 2, missing: [], unknown: 11 });
  const bare = checkElements(readSbomSummary({ format: "cyclonedx-1.5", document: { package_count: 0 } }), null);
  assert.equal(names(bare), ["format", "timestamp", "tool", "components"]);
  assert.equal(bare.missing[0], {
    element: "format",
    words: "CycloneDX 1.6, SPDX 3.0.1, or a later version",
    asked_by: ["BSI"],
    components: null,
  });
  const empty = checkElements(readSbomSummary({}), null);
  assert.equal(names(empty), ["timestamp", "tool"], "neither format nor number of packages is known");
  assert.ok(empty.unknown.includes("components"));
});

for (const [format, isAccepted] of [
  ["cyclonedx-1.5", false],
  ["cyclonedx-1.6", true],
  ["cyclonedx-1.10", true],
  ["cyclonedx-2.0", true],
  ["spdx-2.3", false],
  ["spdx-3.0", false],
  ["spdx-3.0.1", true],
  ["spdx-3.1", true],
  ["swid-1", null],
  ["cyclonedx", null],
  ["cyclonedx-x", null],
] as const)
  test(`${format} is ${isAccepted === null ? "of no known standard" : isAccepted ? "new" : "not new"} enough`, () => {
    const check = checkElements({ ...SUMMARY, format }, null);
    const isUnknown = check.unknown.some((words) => words.startsWith("CycloneDX 1.6"));
    assert.is(isUnknown ? null : !names(check).includes("format"), isAccepted);
  });

const COMPONENT = {
  type: "library",
  name: "left-pad",
  version: "1.3.0",
  supplier: { name: "acme" },
  purl: "pkg:npm/left-pad@1.3.0",
  hashes: [{ alg: "SHA-512", content: "00" }],
  licenses: [{ license: { id: "MIT" } }],
  properties: ["filename", "executable", "archive", "structured"].map((name) => ({
    name: `bsi:component:${name}`,
    value: "x",
  })),
};
const CYCLONEDX = {
  bomFormat: "CycloneDX",
  specVersion: "1.6",
  metadata: {
    timestamp: "2026-01-31T12:00:00Z",
    authors: [{ name: "Ada" }],
    tools: { components: [{ name: "syft" }] },
    lifecycles: [{ phase: "build" }],
  },
  components: [COMPONENT],
  dependencies: [{ ref: "a", dependsOn: [] }],
};
const cycloneDx = (more: object, component: object = {}) => ({
  ...CYCLONEDX,
  components: [{ ...COMPONENT, ...component }],
  ...more,
});

test("a CycloneDX document with everything lacks nothing", () => {
  assert.equal(checkElements(SUMMARY, factsOf(CYCLONEDX)), { components: 1, missing: [], unknown: [] });
});

const { metadata } = CYCLONEDX;
for (const [what, document, missing] of [
  ["no metadata", cycloneDx({ metadata: undefined }), ["author", "timestamp", "tool", "context"]],
  ["an author by e-mail", cycloneDx({ metadata: { ...metadata, authors: [{ email: "a@x.example" }] } }), []],
  [
    "a manufacturer as author",
    cycloneDx({ metadata: { ...metadata, authors: [], manufacturer: { name: "acme" } } }),
    [],
  ],
  ["a nameless author", cycloneDx({ metadata: { ...metadata, authors: [{ name: " " }] } }), ["author"]],
  ["tools as a list", cycloneDx({ metadata: { ...metadata, tools: [{ vendor: "v", name: "trivy" }] } }), []],
  ["tools without a name", cycloneDx({ metadata: { ...metadata, tools: [{}] } }), ["tool"]],
  ["no components", cycloneDx({ components: undefined }), ["components"]],
  ["no dependencies", cycloneDx({ dependencies: [] }), ["dependencies"]],
  ["no supplier", cycloneDx({}, { supplier: undefined }), ["producer"]],
  ["a publisher", cycloneDx({}, { supplier: undefined, publisher: "acme" }), []],
  ["a SHA-256 hash only", cycloneDx({}, { hashes: [{ alg: "SHA-256", content: "00" }] }), ["sha512"]],
  ["an empty hash", cycloneDx({}, { hashes: [{ alg: "SHA-512", content: "" }] }), ["hash", "sha512"]],
  ["a cpe for a purl", cycloneDx({}, { purl: undefined, cpe: "cpe:2.3:a:x" }), []],
  ["no identifier", cycloneDx({}, { purl: undefined }), ["identifier"]],
  ["no licence", cycloneDx({}, { licenses: [] }), ["licence"]],
  ["one property less", cycloneDx({}, { properties: COMPONENT.properties.slice(1) }), ["properties"]],
  [
    "odd shapes",
    cycloneDx({}, { hashes: 5, licenses: {}, properties: "x", supplier: [], purl: {}, version: 1 }),
    ["producer", "version", "identifier", "hash", "sha512", "licence", "properties"],
  ],
] as const)
  test(`CycloneDX with ${what}`, () => {
    assert.equal(names(checkElements(SUMMARY, factsOf(document))), [...missing]);
  });

test("counts the components that lack an element, nested ones too", () => {
  const nested = { ...COMPONENT, version: "", components: [{ ...COMPONENT, version: undefined }, COMPONENT, null, 5] };
  const check = checkElements(SUMMARY, factsOf(cycloneDx({ components: [nested, COMPONENT] })));
  assert.equal(check.missing, [{ element: "version", words: "version", asked_by: ["CISA", "BSI"], components: 2 }]);
  assert.is(check.components, 4);
  assert.equal(describeMissing(check), ["CISA and BSI: version (2 of 4 components lack it)"]);
});

const SPDX = {
  spdxVersion: "SPDX-2.3",
  creationInfo: { created: "2026-01-31T12:00:00Z", creators: ["Tool: syft-1.18.0", "Organization: acme"] },
  packages: [
    {
      name: "left-pad",
      versionInfo: "1.3.0",
      supplier: "Organization: acme",
      licenseDeclared: "MIT",
      licenseConcluded: "NOASSERTION",
      checksums: [{ algorithm: "SHA512", checksumValue: "00" }],
      externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: "pkg:npm/x" }],
    },
  ],
  relationships: [{ relationshipType: "DESCRIBES" }, { relationshipType: "DEPENDS_ON" }],
};
const TAGS = `SPDXVersion: SPDX-2.3
# a comment: of the author
Creator: Tool: syft-1.18.0
Creator: Organization: acme
Created: 2026-01-31T12:00:00Z
CreatorComment: <text>made
PackageName: not a package
</text>

PackageName: left-pad
PackageVersion: 1.3.0
PackageSupplier: Organization: acme
PackageLicenseDeclared: MIT
PackageLicenseConcluded: NOASSERTION
PackageChecksum: SHA512: 00
ExternalRef: PACKAGE-MANAGER purl pkg:npm/x
FileName: ./a
PackageVersion: of no package
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-a
Relationship: SPDXRef-a DEPENDS_ON SPDXRef-b
`;
const OF_SPDX = { ...SUMMARY, format: "spdx-2.3" };
const NO_PLACE = [
  "lifecycle phase in which it was made",
  "file name and whether it is executable, an archive or structured",
];

test("SPDX 2 as JSON and as tags and values says the same", () => {
  for (const document of [SPDX, TAGS, TAGS.replaceAll("\n", "\r\n")]) {
    const check = checkElements(OF_SPDX, factsOf(document));
    assert.equal({ ...check, missing: names(check) }, { components: 1, missing: ["format"], unknown: NO_PLACE });
  }
  const bare = {
    spdxVersion: "SPDX-2.3",
    creationInfo: { creators: ["Person: anonymous ()"] },
    packages: [{ name: "a", supplier: "NOASSERTION", licenseDeclared: "NOASSERTION" }],
    relationships: [{ relationshipType: "DESCRIBES" }],
  };
  const tags =
    "SPDXVersion: SPDX-2.3\nCreator: Person: anonymous ()\nPackageName: a\nPackageSupplier: NOASSERTION\n" +
    "PackageLicenseDeclared: NOASSERTION\nRelationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-a";
  for (const document of [bare, tags])
    assert.equal(names(checkElements(OF_SPDX, factsOf(document))), [
      "format",
      "author",
      "timestamp",
      "tool",
      "dependencies",
      "producer",
      "version",
      "identifier",
      "hash",
      "sha512",
      "licence",
    ]);
});

for (const [what, text, unread] of [
  ["XML", '<?xml version="1.0"?><bom/>', "it is XML, which the server does not read"],
  ["an empty file", "", "it is neither CycloneDX nor SPDX in a form that the server reads"],
  ["another text", "hello", "it is neither CycloneDX nor SPDX in a form that the server reads"],
  ["broken JSON", '{"bomFormat": "CycloneDX"', "it is not valid JSON"],
  ["other JSON", '{"name": "app"}', "it is JSON, but neither CycloneDX nor SPDX 2"],
  [
    "SPDX 3",
    '{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"}',
    "it is JSON, but neither CycloneDX nor SPDX 2",
  ],
  ["no text", new Uint8Array([0xff, 0xfe, 0x00]), "it is not text in UTF-8"],
] as const)
  test(`says why it does not read ${what}`, () => assert.equal(read(text), { unread }));

test("reads a document after a byte order mark, and of tags and values not more than fit in memory", () => {
  assert.ok("facts" in read(`\ufeff${JSON.stringify(CYCLONEDX)}`));
  const packages = "PackageName: a\n".repeat(150_001);
  assert.equal(read(`SPDXVersion: SPDX-2.3\n${packages}`), { unread: "it has more values than the server reads" });
});

test("says what it looked at", () => {
  assert.is(describeBasis(null), "The attached document was read.");
  assert.is(
    describeBasis("it is not valid JSON"),
    "Only what the client reported was looked at: the document was not read, because it is not valid JSON.",
  );
});

test.run();
