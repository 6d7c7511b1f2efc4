/**
 * The rules of the house that a reviewer would forget: who may import whom, and that no test file is skipped silently.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sourceFiles } from "./source.ts";

const test = suite("rules/house");

/**
 * Area -> what of ours it may import. An area is a file of src/ or a folder in it. The order is that of the layers: a
 * line names only areas that stand below it.
 */
const MAY_IMPORT: Record<string, readonly string[]> = {
  "main.ts": ["cli"],
  cli: [
    "diagnostics",
    "server",
    "auth",
    "audit-packages",
    "notifications",
    "backup",
    "evidence",
    "config",
    "store",
    "domain",
    "log.ts",
    "errors.ts",
    "assets.ts",
  ],
  diagnostics: ["config", "evidence", "store", "domain", "errors.ts", "assets.ts"],
  server: [
    "web",
    "api",
    "audit-packages",
    "auth",
    "contract",
    "http",
    "notifications",
    "jobs",
    "backup",
    "evidence",
    "workers",
    "config",
    "store",
    "domain",
    "log.ts",
    "errors.ts",
    "assets.ts",
  ],
  web: ["auth", "http", "store", "domain", "errors.ts", "assets.ts"],
  api: ["audit-packages", "contract", "http", "workers", "store", "domain", "json", "errors.ts"],
  "audit-packages": ["api", "contract", "evidence", "archive", "workers", "store", "domain", "assets.ts"],
  contract: ["api", "http", "store", "domain", "json", "errors.ts"],
  auth: ["notifications", "store", "domain", "errors.ts"],
  notifications: ["jobs", "store", "domain", "log.ts"],
  jobs: ["contract/report-shapes.ts", "workers", "store", "domain", "log.ts", "errors.ts"],
  http: ["workers", "domain/access.ts", "domain/network", "json", "log.ts", "errors.ts"],
  backup: ["evidence", "archive", "workers", "config", "store", "domain", "log.ts"],
  evidence: ["workers", "store", "domain", "log.ts", "errors.ts"],
  "log.ts": ["config"],
  config: ["domain"],
  store: ["domain", "errors.ts", "assets.ts"],
  workers: ["domain", "json", "errors.ts"],
  json: [],
  domain: [],
  archive: [],
  "errors.ts": [],
  "assets.ts": [],
};

/** Package -> the only areas that may use it. */
const PACKAGES: Record<string, readonly string[]> = {
  koa: ["http", "web", "server"],
  "@koa/router": ["http"],
  "@koa/multer": ["http"],
  "better-sqlite3": ["store"],
  ajv: ["http", "workers"],
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

test("every file imports only what its place allows", () => {
  const offences: string[] = [];
  for (const file of files) {
    const area = areaOf(file.path);
    const allowed = MAY_IMPORT[area];
    if (!allowed) {
      offences.push(`${file.path}: src/${area} has no place in the house: add it to MAY_IMPORT and to src/README.md`);
      continue;
    }
    for (const name of file.imports) {
      if (name.startsWith("node:")) continue;
      if (!name.startsWith("src/")) {
        const users = PACKAGES[packageOf(name)];
        if (users && !users.includes(area)) offences.push(`${file.path} imports ${name}: only ${users.join(", ")} may`);
      } else if (areaOf(name) !== area && !allowed.includes("*")) {
        const target = name.slice("src/".length);
        if (!allowed.some((one) => target === one || target.startsWith(`${one}/`)))
          offences.push(`${file.path} imports ${name}`);
      }
    }
  }
  assert.equal(offences, []);
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

/** A table of data is read by looking things up, and splitting it would only hide rows. */
const TABLES: readonly string[] = ["src/config/options.ts"];
/** Longer than 400 lines since the formatter came; each is to be divided. */
const TO_DIVIDE: readonly string[] = [
  "src/http/router.ts",
  "src/server/app.ts",
  "src/server/instance.ts",
  "src/api/environments/environments.ts",
  "src/api/flows/artifacts.ts",
  "src/audit-packages/pdf/render.ts",
  "src/store/environments/snapshot-recorder.ts",
];

test("no file of src/ but tables of data is longer than about 400 lines", () => {
  const long = files.filter((file) => file.text.split("\n").length > 430).map((file) => file.path);
  assert.equal(
    long.filter((path) => ![...TABLES, ...TO_DIVIDE].includes(path)),
    [],
  );
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
      .filter(({ path, text }) => path.endsWith(".test.ts") && path !== "test/rules/house.test.ts" && timed.test(text))
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
