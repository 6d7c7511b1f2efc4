/**
 * Who may import whom: a fixed order of the areas, no import cycle, every package in its place, and a tree in which a
 * folder can be taken in at a glance. `import type` counts, because a reader follows types too.
 */
import { dirname } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cyclesOf } from "./graph.ts";
import { sourceFiles } from "./source.ts";

const test = suite("rules/imports");

/**
 * Area -> what of ours it may import. An area is a file of src/ or a folder in it. The lines are in the order of the
 * layers: a line names only areas that stand below it.
 */
const MAY_IMPORT: readonly (readonly [area: string, imports: string])[] = [
  ["main.ts", "cli"],
  [
    "cli",
    "diagnostics demo server api contract http backup auth evidence config log.ts store rego json domain " +
      "errors.ts " +
      "assets.ts clock.ts",
  ],
  ["diagnostics", "evidence config store domain"],
  [
    "demo",
    "server web api contract auth notifications jobs http evidence log.ts store workers archive domain clock.ts",
  ],
  [
    "server",
    "web api audit-packages contract auth notifications jobs http backup evidence log.ts config store " +
      "rego workers archive domain errors.ts assets.ts clock.ts",
  ],
  ["web", "api auth http json archive/compress.ts domain errors.ts assets.ts"],
  ["api", "audit-packages auth contract http rego store workers json domain errors.ts"],
  ["audit-packages", "contract evidence store workers json archive domain assets.ts"],
  ["auth", "store domain errors.ts"],
  ["notifications", "jobs contract http/next-turn.ts log.ts store domain"],
  // The recorder reads the texts of reports, and the thread of evaluations writes what a policy reads: shapes are all
  // that they need of the contract.
  [
    "jobs",
    "contract/report-shapes.ts contract/evaluation-input.ts contract/urls.ts http/body/read-json.ts http/answers " +
      "log.ts store workers archive/compress.ts archive/compressors.ts domain errors.ts",
  ],
  ["contract", "http store json domain errors.ts"],
  [
    "http",
    "workers json archive/compress.ts domain/access.ts domain/lru.ts domain/network domain/text domain/time.ts " +
      "errors.ts",
  ],
  ["backup", "evidence store workers archive domain"],
  ["rego", "evidence log.ts store workers json archive domain errors.ts assets.ts"],
  ["evidence", "store workers domain/lru.ts domain/text domain/time.ts errors.ts"],
  ["log.ts", "config domain/text"],
  ["config", "domain"],
  ["store", "domain errors.ts assets.ts"],
  ["workers", "json domain errors.ts"],
  ["json", ""],
  ["archive", ""],
  ["domain", ""],
  ["errors.ts", ""],
  ["assets.ts", ""],
  ["clock.ts", ""],
];

/**
 * The areas of store/ and its loose files, the lowest first: each imports only what stands before it. A file that reads
 * the tables of several areas stands in the last of them. What changes below is announced: index.ts passes the calls.
 */
const STORE_ORDER: readonly string[] = [
  "actor.ts",
  "spool.ts",
  "db",
  "accounts",
  "attestations",
  "flows",
  "policies",
  "environments",
  "notifications",
  "retention",
  "index.ts",
  "reader.ts",
];

/** No folder holds more files than this; a larger one gets a second level. */
const MAX_FILES_IN_FOLDER = 32;
const MAX_LOOSE_FILES = 5;

/** Package -> the only areas that may use it. */
const PACKAGES: Record<string, readonly string[]> = {
  koa: ["http", "web", "server"],
  "htmx.org": ["web"],
  "d3-scale": ["web"],
  "d3-shape": ["web"],
  "@koa/multer": ["http"],
  "better-sqlite3": ["store"],
  ajv: ["http", "backup", "workers"],
  "jq-wasm": ["workers"],
  pino: ["log.ts"],
  pdfkit: ["audit-packages"],
  fontkit: ["audit-packages"],
  undici: ["notifications"],
  "openid-client": ["auth"],
  nodemailer: ["notifications"],
  "ipaddr.js": ["domain"],
  "prom-client": ["server"],
  "@aws-sdk/client-s3": ["evidence"],
  "@aws-sdk/lib-storage": ["evidence"],
  "cli-progress": ["cli"],
};

const areaOf = (path: string): string => path.replace(/^src\//, "").split("/")[0] as string;
const packageOf = (name: string): string =>
  name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
const files = sourceFiles("src");

test("every file imports only what its area may import", () => {
  const allowedOf = new Map(MAY_IMPORT.map(([area, imports]) => [area, imports.split(" ")]));
  const offences: string[] = [];
  for (const file of files) {
    const area = areaOf(file.path);
    const allowed = allowedOf.get(area);
    if (!allowed) {
      offences.push(`${file.path}: src/${area} is not in MAY_IMPORT: add it there and to src/README.md`);
      continue;
    }
    for (const name of file.imports) {
      if (name.startsWith("node:")) continue;
      if (!name.startsWith("src/")) {
        const users = PACKAGES[packageOf(name)];
        if (users && !users.includes(area)) offences.push(`${file.path} imports ${name}: only ${users.join(", ")} may`);
      } else if (areaOf(name) !== area) {
        const target = name.slice("src/".length);
        if (!allowed.some((one) => target === one || target.startsWith(`${one}/`)))
          offences.push(`${file.path} imports ${name}: ${area} may import ${allowed.join(", ")}`);
      }
    }
  }
  assert.equal(offences, []);
});

test("only assay dev can reach the demonstration, whose server has a clock that can be set", () => {
  const demo = (name: string) => name.startsWith("src/demo/");
  assert.equal(
    files.filter(({ path, imports }) => !demo(path) && imports.some(demo)).map(({ path }) => path),
    ["src/cli/commands/dev.ts"],
  );
  assert.equal(
    files.filter(({ imports }) => imports.includes("src/cli/commands/dev.ts")).map(({ path }) => path),
    ["src/cli/commands.ts"],
  );
});

test("an area names only areas below it", () => {
  const order = MAY_IMPORT.map(([area]) => area);
  const offences = MAY_IMPORT.flatMap(([area, imports], index) =>
    imports
      .split(" ")
      .filter((name) => name !== "" && order.indexOf(name.split("/")[0] as string) <= index)
      .map((name) => `${area} -> ${name}`),
  );
  assert.equal(offences, []);
});

type Imports = { path: string; imports: readonly string[] };

/** The imports from one area of store/ into another that does not stand before it. */
const findUpwardImports = (those: readonly Imports[]): string[] => {
  const storeAreaOf = (path: string): string | undefined => path.match(/^src\/store\/([^/]+)/)?.[1];
  const placeOf = (area: string): number => STORE_ORDER.indexOf(area);
  return those.flatMap(({ path, imports }) => {
    const area = storeAreaOf(path);
    if (area === undefined) return [];
    if (placeOf(area) < 0) return [`${path}: store/${area} is not in STORE_ORDER`];
    return imports.flatMap((name) => {
      const target = storeAreaOf(name);
      return target === undefined || target === area || (placeOf(target) >= 0 && placeOf(target) < placeOf(area))
        ? []
        : [`${path} imports ${name}: ${area} may import ${STORE_ORDER.slice(0, placeOf(area)).join(", ")}`];
    });
  });
};

test("an area of store/ imports only areas before it", () => {
  assert.equal(findUpwardImports(files), []);
});

test("an import of a later area of store/, of its index, or from an unknown area is found", () => {
  const below = "db, accounts, attestations, flows";
  const cases: [path: string, imports: string, found: string | null][] = [
    ["flows/trails.ts", "flows/artifacts.ts", null],
    ["flows/trails.ts", "attestations/attestations.ts", null],
    ["flows/trails.ts", "spool.ts", null],
    ["index.ts", "retention/retention.ts", null],
    [
      "policies/policies.ts",
      "environments/snapshots.ts",
      `imports src/store/environments/snapshots.ts: policies may import actor.ts, spool.ts, ${below}`,
    ],
    [
      "policies/policies.ts",
      "index.ts",
      `imports src/store/index.ts: policies may import actor.ts, spool.ts, ${below}`,
    ],
    ["spool.ts", "db/types.ts", "imports src/store/db/types.ts: spool.ts may import actor.ts"],
    ["db/types.ts", "new/rows.ts", "imports src/store/new/rows.ts: db may import actor.ts, spool.ts"],
  ];
  for (const [path, imports, found] of cases)
    assert.equal(
      findUpwardImports([{ path: `src/store/${path}`, imports: [`src/store/${imports}`, "src/domain/time.ts"] }]),
      found === null ? [] : [`src/store/${path} ${found}`],
    );
  assert.equal(findUpwardImports([{ path: "src/store/new/rows.ts", imports: [] }]), [
    "src/store/new/rows.ts: store/new is not in STORE_ORDER",
  ]);
});

test("every permitted import is used", () => {
  const used = new Set(
    files.flatMap(({ path, imports }) =>
      imports
        .filter((name) => name.startsWith("src/"))
        .flatMap((name) => {
          const parts = name.split("/").slice(1);
          return parts.map((_, depth) => `${areaOf(path)} -> ${parts.slice(0, depth + 1).join("/")}`);
        }),
    ),
  );
  const unused = MAY_IMPORT.flatMap(([area, imports]) =>
    imports
      .split(" ")
      .filter((name) => name !== "")
      .map((name) => `${area} -> ${name}`),
  ).filter((pair) => !used.has(pair));
  assert.equal(unused, []);
});

test("a cycle is found wherever it begins", () => {
  const graph = { a: ["b"], b: ["c"], c: ["d"], d: ["b"], e: ["a"] };
  assert.equal(cyclesOf(new Map(Object.entries(graph))), [["b", "c", "d"]]);
});

test("no files and no areas import each other in a circle", () => {
  const own = (name: string) => name.startsWith("src/");
  const byFile = new Map(files.map(({ path, imports }) => [path, imports.filter(own)]));
  const byArea = new Map<string, string[]>();
  for (const { path, imports } of files)
    byArea.set(areaOf(path), [
      ...(byArea.get(areaOf(path)) ?? []),
      ...imports
        .filter(own)
        .map(areaOf)
        .filter((area) => area !== areaOf(path)),
    ]);
  assert.equal({ files: cyclesOf(byFile), areas: cyclesOf(byArea) }, { files: [], areas: [] });
});

test(`src/ has at most ${MAX_LOOSE_FILES} loose files, and no folder more than ${MAX_FILES_IN_FOLDER} files`, () => {
  const counts = new Map<string, number>();
  for (const { path } of files) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  assert.ok((counts.get("src") ?? 0) <= MAX_LOOSE_FILES, "src/");
  assert.equal(
    [...counts].filter(([, count]) => count > MAX_FILES_IN_FOLDER),
    [],
  );
});

test("no name is exported by two files, but a shape and the type of the same record may share one", () => {
  const exporters = new Map<string, { path: string; kind: string }[]>();
  for (const { path, text } of files)
    for (const [, kind, name] of text.matchAll(
      /^export (?:async )?(const|let|function\*?|class|abstract class|type|interface) (\w+)/gm,
    ))
      exporters.set(name as string, [...(exporters.get(name as string) ?? []), { path, kind: kind as string }]);
  const twice = [...exporters].flatMap(([name, places]) => {
    const paths = [...new Set(places.map(({ path }) => path))];
    const isPair =
      places.length === 2 && places.some(({ kind }) => kind === "const") && places.some(({ kind }) => kind === "type");
    return paths.length > 1 && !isPair ? [`${name}: ${paths.join(", ")}`] : [];
  });
  assert.equal(twice, []);
});

test("nothing in domain/ knows the clock, randomness, files or the network", () => {
  const offences = files
    .filter((file) => areaOf(file.path) === "domain")
    .flatMap((file) => [
      ...file.imports.filter((name) => name.startsWith("node:")).map((name) => `${file.path} imports ${name}`),
      ...(file.text.match(/\b(Date\.now|new Date\(\)|Math\.random|process\.|fetch\()/g) ?? []).map(
        (word) => `${file.path} uses ${word}`,
      ),
    ]);
  assert.equal(offences, []);
});

test("no query selects all columns", () => {
  assert.equal(
    files.filter((file) => /SELECT \*/i.test(file.text)).map((file) => file.path),
    [],
  );
});

test("every test file runs the suites that it declares", () => {
  const offences: string[] = [];
  for (const file of sourceFiles("test").filter(({ path }) => path.endsWith(".test.ts"))) {
    const suites = [...file.text.matchAll(/const (\w+) = suite(?:<[^>]*>)?\(/g)].map((match) => match[1]);
    if (suites.length === 0) offences.push(`${file.path} declares no suite`);
    for (const name of suites)
      if (!new RegExp(`\\b${name}\\.run\\(\\)`).test(file.text))
        offences.push(`${file.path}: ${name}.run() is missing`);
  }
  assert.equal(offences, []);
});

test("no test asserts a duration: speed is measured by make bench", () => {
  const timed = /performance\.now\(\)|hrtime/;
  assert.equal(
    sourceFiles("test")
      .filter(
        ({ path, text }) => path.endsWith(".test.ts") && path !== "test/rules/imports.test.ts" && timed.test(text),
      )
      .map(({ path }) => path),
    [],
  );
});

test("no test waits by the clock", () => {
  const sleeping = /setTimeout\(\s*(resolve|r|done)\b|timers\/promises/;
  assert.equal(
    sourceFiles("test")
      .filter(({ path, text }) => path.endsWith(".test.ts") && sleeping.test(text))
      .map(({ path }) => path),
    [],
  );
});

test.run();
