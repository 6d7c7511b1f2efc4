/** The bill of materials matches the contents of the executable, with licences and texts. */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import formats from "ajv-formats";
import jq from "jq-wasm";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { bundle } from "../../bin/bundle.ts";
import { licenseOfModule, readGoModules } from "../../bin/go-modules.ts";

const test = suite("bin/components");
const ROOT = join(import.meta.dirname, "..", "..");

type Model = {
  name: string;
  group?: string;
  version?: string;
  purl?: string;
  "bom-ref": string;
  licenses?: unknown[];
  components?: Model[];
  hashes?: { alg: string; content: string }[];
};
type Bill = {
  components: Model[];
  metadata: { component: Model };
  dependencies: { ref: string; dependsOn?: string[] }[];
};

let directory = "";
let keys: string[] = [];
let bill: Bill;
test.before(async () => {
  directory = mkdtempSync(join(tmpdir(), "assay-components-"));
  keys = await bundle(ROOT, directory);
  bill = JSON.parse(readFileSync(join(directory, "assets", "sbom.cdx.json"), "utf8"));
});
test.after(() => rmSync(directory, { recursive: true, force: true }));

const texts = (): string[] => readdirSync(join(directory, "assets", "licenses"));
const nameOf = ({ group, name }: Model): string => (group === undefined ? name : `${group}/${name}`);

/** The packages of what browsers load; their code is minified. */
const CLIENT = [
  "@codemirror/autocomplete",
  "@codemirror/commands",
  "@codemirror/lang-yaml",
  "@codemirror/language",
  "@codemirror/lint",
  "@codemirror/state",
  "@codemirror/view",
  "@lezer/common",
  "@lezer/highlight",
  "@lezer/lr",
  "@lezer/yaml",
  "@marijn/find-cluster-break",
  "crelt",
  "style-mod",
  "w3c-keyname",
  "@fontsource-variable/inter",
  "@fontsource/jetbrains-mono",
  "@primer/octicons",
  "@primer/primitives",
  "htmx.org",
];

/** The packages whose code is in the bundles: esbuild writes the path of each file before its code. */
function packagesInside(): Set<string> {
  const files = ["main.cjs", ...keys.filter((key) => key.startsWith("workers/")).map((key) => join("assets", key))];
  const found = files.flatMap((file) =>
    [
      ...readFileSync(join(directory, file), "utf8").matchAll(
        /^\s*(?:\/\/ |")node_modules\/(?:[^\n"]*\/node_modules\/)?((?:@[^/\n]+\/)?[^/\n]+)\/[^\n"]*"?/gm,
      ),
    ].map((match) => match[1] as string),
  );
  return new Set(found);
}

test("the bill of materials lists exactly the packages in bundles and assets", () => {
  const inside = packagesInside();
  assert.ok(inside.size > 50, `${inside.size}`);
  const listed = new Set(bill.components.map(nameOf));
  assert.equal(
    [...inside].filter((name) => !listed.has(name)),
    [],
  );
  const assets = [
    "swagger-ui-dist",
    "dejavu-fonts-ttf",
    "@fontsource/noto-sans-jp",
    "@fontsource/noto-sans-kr",
    "@fontsource/noto-sans-sc",
    "better-sqlite3",
    "node",
    ...CLIENT,
    ...readGoModules(ROOT).map(({ path }) => path),
  ];
  assert.equal(
    [...listed].filter((name) => !inside.has(name) && !assets.includes(name)),
    [],
  );
  assert.equal(
    assets.filter((name) => !listed.has(name)),
    [],
  );
  for (const tool of ["esbuild", "typescript", "uvu", "postject", "brotli"]) assert.not(listed.has(tool), tool);
});

test("every component has the version of the lock file, a licence, a digest and a text", () => {
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version?: string }>;
  };
  const locked = new Set(
    Object.entries(lock.packages).map(([path, { version }]) => `${path.replace(/^.*node_modules\//, "")}@${version}`),
  );
  const goModules = new Set(readGoModules(ROOT).map(({ path, version }) => `${path}@${version}`));
  for (const component of bill.components) {
    const id = `${nameOf(component)}@${component.version}`;
    assert.is(component.licenses?.length, 1, id);
    if (goModules.has(id)) assert.is(component.purl, `pkg:golang/${id}`);
    else {
      if (component.name !== "node") assert.ok(locked.has(id), id);
      assert.match(component.purl ?? "", /^pkg:npm\/(%40[a-z-]+\/)?[a-z0-9._-]+@\d/);
      assert.match(component.hashes?.[0]?.content ?? "", /^[0-9a-f]{128}$/, id);
    }
    const text = readFileSync(join(directory, "assets", "licenses", `${id.replaceAll("/", "__")}.txt`), "utf8");
    assert.match(text, /permission|redistribution|license/i, id);
    assert.match(text, /copyright|author|\(c\)|Google Inc/i, id);
  }
  const refs = bill.components.flatMap((component) => [
    component["bom-ref"],
    ...(component.components ?? []).map((part) => part["bom-ref"]),
  ]);
  assert.equal(
    texts().filter((file) => !refs.includes(file.replace(/\.txt$/, "").replaceAll("__", "/"))),
    [],
    "no text without a component",
  );
  assert.equal(keys.filter((key) => key.startsWith("licenses/")).length, texts().length);
});

test("lists the Go modules of the Rego engine by the versions that its go.sum pins", () => {
  const pinned = readFileSync(join(ROOT, "src/rego/engine/go.sum"), "utf8");
  const modules = readGoModules(ROOT);
  assert.ok(modules.some(({ path }) => path === "github.com/open-policy-agent/opa"));
  for (const { path, version } of modules) assert.ok(path === "std" || pinned.includes(`${path} ${version} h1:`), path);
  const opa = bill.components.find(({ name }) => name === "github.com/open-policy-agent/opa") as { cpe?: string };
  assert.match(opa.cpe ?? "", /^cpe:2\.3:a:openpolicyagent:open_policy_agent:\d+\.\d+\.\d+:/);
});

test("names the licence of a Go module by its text, and refuses a text that it does not know", () => {
  const licenseOf = (name: string, text: string) =>
    licenseOfModule({ path: "example.org/x", version: "v1.0.0", licenses: [{ name, text }] });
  assert.is(licenseOf("LICENSE", "Apache License\n   Version 2.0, January 2004"), "Apache-2.0");
  assert.is(
    licenseOf("LICENSE", "Redistribution and use in source and binary forms ... Neither the name of"),
    "BSD-3-Clause",
  );
  assert.throws(() => licenseOf("LICENSE", "All rights reserved"), /LICENSE of the Go module example.org\/x/);
  assert.throws(() => licenseOf("NOTICE", "Copyright"), /the Go module example.org\/x has no licence/);
});

test("lists embedded components: SQLite, jq and its parts, llhttp, the libraries of Node", async () => {
  const parts = (name: string): string[] =>
    (bill.components.find((one) => one.name === name)?.components ?? []).map((part) =>
      [part.name, part.version].filter(Boolean).join(" "),
    );
  const { stdout } = await jq
    .raw("null", ".", ["--version"])
    .then((out: string | { stdout: string }) => (typeof out === "string" ? { stdout: out } : out));
  const version = /jq-(\d+\.\d+(?:\.\d+)?)/.exec(stdout)?.[1];
  assert.equal(parts("jq-wasm").sort(), ["emscripten", `jq ${version}`, "musl", "oniguruma"]);
  assert.match(parts("better-sqlite3").join(), /^sqlite 3\.\d+\.\d+$/);
  assert.equal(parts("undici"), ["llhttp"]);
  for (const library of ["v8", "openssl", "icu", "uv", "zlib"])
    assert.ok(
      parts("node").some((part) => part.startsWith(`${library} ${process.versions[library]}`)),
      library,
    );
  // Node's text names every library that it covers.
  const node = readFileSync(join(directory, "assets", "licenses", `node@${process.versions.node}.txt`), "utf8");
  for (const library of ["V8", "OpenSSL", "ICU", "libuv", "zlib", "llhttp", "nghttp2", "c-ares", "simdjson", "ada"])
    assert.match(node, `- ${library}, located at`);
  const textOf = (pattern: RegExp): string =>
    readFileSync(join(directory, "assets", "licenses", texts().find((file) => pattern.test(file)) ?? ""), "utf8");
  assert.match(textOf(/^jq-wasm@.*__oniguruma/), "K.Kosako");
  for (const author of ["Stephen Dolan", "David M. Gay", "International Business Machines"])
    assert.match(textOf(/^jq-wasm@.*__jq@/), author);
  assert.match(textOf(/^swagger-ui-dist@/), "DOMPurify", "the text covers the libraries in its bundle");
});

test("the bill of materials is valid CycloneDX 1.6", () => {
  const schemas = join(ROOT, "node_modules", "@cyclonedx", "cyclonedx-library", "res", "schema");
  const read = (name: string): object =>
    JSON.parse(readFileSync(join(schemas, `${name}.SNAPSHOT.schema.json`), "utf8"));
  const ajv = new Ajv({ strict: false, validateFormats: true, allErrors: true });
  for (const name of ["spdx", "jsf-0.82"])
    ajv.addSchema({ ...read(name), $id: `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json` });
  formats.default(ajv);
  for (const format of ["idn-email", "iri-reference"]) ajv.addFormat(format, true);
  const valid = ajv.compile(read("bom-1.6"));
  assert.ok(valid(bill), JSON.stringify(valid.errors));
  assert.not(
    valid({ ...bill, components: [{ ...bill.components[0], type: "nonsense" }] }),
    "the schema refuses something",
  );
});

test("dependencies refer to listed components, starting from the program", () => {
  const refs = new Set([
    bill.metadata.component["bom-ref"],
    ...bill.components.flatMap((one) => [one["bom-ref"], ...(one.components ?? []).map((part) => part["bom-ref"])]),
  ]);
  assert.equal(
    bill.dependencies.flatMap(({ ref, dependsOn = [] }) => [ref, ...dependsOn]).filter((ref) => !refs.has(ref)),
    [],
  );
  const uses = (name: string): string[] =>
    bill.dependencies.find(({ ref }) => ref.startsWith(`${name}@`))?.dependsOn ?? [];
  assert.is(uses("assay").length, bill.components.length);
  assert.ok(uses("koa").some((ref) => ref.startsWith("koa-compose@")));
});

test("a second build has the same bill of materials", async () => {
  const first = readFileSync(join(directory, "assets", "sbom.cdx.json"));
  const other = mkdtempSync(join(tmpdir(), "assay-components-"));
  try {
    assert.equal(await bundle(ROOT, other), keys);
    assert.equal(readFileSync(join(other, "assets", "sbom.cdx.json")).equals(first), true);
  } finally {
    rmSync(other, { recursive: true, force: true });
  }
  assert.not(existsSync(other));
});

test("bin/dependencies.md states correctly which unmaintained packages are inside", () => {
  const inside = new Set(bill.components.map((component) => `${nameOf(component)}@${component.version}`));
  const rows = [
    ...readFileSync(join(ROOT, "bin", "dependencies.md"), "utf8").matchAll(/^\| `([^`]+)` \| (\S+) \| (yes|no) \|/gm),
  ];
  assert.ok(rows.length > 30);
  const wrong = rows.filter(
    ([, name, version, inExecutable]) => inside.has(`${name}@${version}`) !== (inExecutable === "yes"),
  );
  assert.equal(
    wrong.map(([, name, version, inExecutable]) => `${name}@${version}: ${inExecutable}`),
    [],
  );
});

test.run();
