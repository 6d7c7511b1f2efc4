/** The rules of the house that a reviewer would forget: who may import whom, and that no test file is skipped silently. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sourceFiles } from "./source.ts";

const test = suite("rules/house");

/** Area -> what of ours it may import. An area is a file of src/ or a folder in it; `*` allows everything. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  domain: [],
  "errors.ts": [],
  "assets.ts": [],
  "log.ts": ["options.ts"],
  "options.ts": ["option-values.ts", "domain/access.ts", "domain/addresses.ts", "domain/outgoing", "domain/quantities.ts"],
  "option-values.ts": ["options.ts", "domain/access.ts", "domain/addresses.ts", "domain/quantities.ts"],
  "config.ts": ["options.ts", "domain/yaml.ts", "domain/excerpt.ts", "domain/near-names.ts", "domain/quantities.ts"],
  store: ["domain", "errors.ts", "assets.ts"],
  vault: ["domain", "errors.ts", "log.ts"],
  // What a backup is, how one is made, read and restored: whole data directories.
  backup: ["store", "vault", "packages/tar.ts", "domain", "options.ts", "log.ts", "workers/reclaim.ts"],
  // The recording thread reads reports, another one reads other large bodies: their shapes, and how bodies are checked. The package thread shows records as answers do.
  workers: ["store", "backup", "evidence.ts", "vault/vault.ts", "vault/hashing.ts", "vault/places.ts", "domain", "errors.ts", "log.ts", "http/read-json.ts", "http/json-text.ts", "vault/layout.ts", "vault/errors.ts", "api/report-shapes.ts", "api/urls.ts", "packages"],
  packages: ["api", "store", "vault/layout.ts", "domain", "errors.ts", "assets.ts"],
  http: ["errors.ts", "log.ts", "domain/access.ts", "domain/addresses.ts", "domain/networks.ts", "domain/urls.ts"],
  api: ["http", "store", "vault", "workers", "domain", "errors.ts"],
  outgoing: ["domain"],
  jobs: ["store", "vault", "workers", "outgoing", "domain", "errors.ts", "log.ts"],
  "metrics.ts": ["store", "workers", "log.ts"],
  logins: ["outgoing", "store", "domain", "errors.ts"],
  ui: ["http", "logins", "store", "domain", "errors.ts", "assets.ts"],
  doctor: ["certificates.ts", "options.ts", "store", "domain/clock.ts"],
  inspection: ["store", "vault", "domain", "errors.ts", "assets.ts"],
  cli: ["*"],
  "assay.ts": ["*"],
  "callers.ts": ["api", "http", "store", "domain"],
  "listen.ts": ["http", "unix-socket.ts"],
  "unix-socket.ts": [],
  "file-limit.ts": [],
  "fresh-directory.ts": [],
  "certificates.ts": [],
  "systemd.ts": ["log.ts"],
  "threads.ts": ["assets.ts", "http/read-json.ts", "vault/places.ts", "jobs", "workers"],
  "chores.ts": ["*"],
  "clock-watch.ts": ["domain/clock.ts", "log.ts", "store"],
  "readiness.ts": ["assets.ts", "clock-watch.ts", "http/probes.ts", "store/database.ts"],
  "storage-probe.ts": [],
  "startup-log.ts": ["assets.ts", "config.ts", "options.ts", "log.ts", "store"],
  "room.ts": ["store/writer.ts", "domain/quantities.ts", "errors.ts", "log.ts"],
  "evidence.ts": ["store", "vault"],
  "serve.ts": ["*"],
  "main.ts": ["*"],
};

/** Package -> the only areas that may use it. */
const PACKAGES: Record<string, readonly string[]> = {
  koa: ["http", "ui", "assay.ts"],
  "@koa/router": ["http"],
  "@koa/multer": ["http"],
  "better-sqlite3": ["store", "workers"],
  ajv: ["http", "workers"],
  "jq-wasm": ["workers"],
  pino: ["log.ts"],
  pdfkit: ["packages"],
  fontkit: ["packages"],
  undici: ["outgoing"],
  "openid-client": ["logins"],
  nodemailer: ["outgoing"],
  "ipaddr.js": ["domain"],
  "prom-client": ["metrics.ts"],
  "@aws-sdk/client-s3": ["vault"],
  "@aws-sdk/lib-storage": ["vault"],
  "cli-progress": ["cli"],
};

const areaOf = (path: string): string => path.replace(/^src\//, "").split("/")[0] as string;
const packageOf = (name: string): string => name.split("/").slice(0, name.startsWith("@") ? 2 : 1).join("/");
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
        if (!allowed.some((one) => target === one || target.startsWith(`${one}/`))) offences.push(`${file.path} imports ${name}`);
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
      ...(file.text.match(/\b(Date\.now|new Date\(\)|Math\.random|process\.|fetch\()/g) ?? []).map((word) => `${file.path} uses ${word}`),
    ]);
  assert.equal(offences, []);
});

/** A table of data is read by looking things up, and splitting it would only hide rows. */
const TABLES: readonly string[] = ["src/options.ts"];

test("no file of src/ but tables of data is longer than about 400 lines", () => {
  const long = files.filter((file) => file.text.split("\n").length > 430).map((file) => file.path);
  assert.equal(long.filter((path) => !TABLES.includes(path)), []);
});

test("no query selects all columns", () => {
  assert.equal(files.filter((file) => /SELECT \*/i.test(file.text)).map((file) => file.path), []);
});

test("every test file runs the suites that it declares", () => {
  const offences: string[] = [];
  for (const file of sourceFiles("test").filter(({ path }) => path.endsWith(".test.ts"))) {
    const suites = [...file.text.matchAll(/const (\w+) = suite(?:<[^>]*>)?\(/g)].map((match) => match[1]);
    if (suites.length === 0) offences.push(`${file.path} declares no suite`);
    for (const name of suites) if (!new RegExp(`\\b${name}\\.run\\(\\)`).test(file.text)) offences.push(`${file.path}: ${name}.run() is missing`);
  }
  assert.equal(offences, []);
});

test("no test asserts a duration: speed is measured by make bench", () => {
  const timed = /performance\.now\(\)|hrtime/;
  assert.equal(sourceFiles("test").filter(({ path, text }) => path.endsWith(".test.ts") && path !== "test/rules/house.test.ts" && timed.test(text)).map(({ path }) => path), []);
});

test("no test waits by the clock", () => {
  const sleeping = /setTimeout\(\s*(resolve|r|done)\b|timers\/promises/;
  assert.equal(sourceFiles("test").filter(({ path, text }) => path.endsWith(".test.ts") && sleeping.test(text)).map(({ path }) => path), []);
});

test.run();
