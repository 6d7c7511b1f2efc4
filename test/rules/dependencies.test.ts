/** What a production install brings is what bin/dependencies.md assesses: nothing missing, nothing stale. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROOT } from "./source.ts";

const test = suite("rules/dependencies");

type Locked = {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  link?: boolean;
  resolved?: string;
  hasInstallScript?: boolean;
};
const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as { packages: Record<string, Locked> };
const installed = Object.entries(lock.packages)
  .filter(([path, { dev, link }]) => path.startsWith("node_modules/") && !dev && !link)
  .map(([path, { version, hasInstallScript }]) => ({
    name: path.split("node_modules/").at(-1) as string,
    version,
    hasInstallScript,
  }));

const page = readFileSync(join(ROOT, "bin/dependencies.md"), "utf8");
const [unmaintainedPart = "", maintainedPart = ""] =
  page.split("## Unmaintained but kept")[1]?.split("## Maintained") ?? [];
const unmaintained = [...unmaintainedPart.matchAll(/^\| `([^`]+)` \| (\S+) \| (yes|no) \| (.+) \|$/gm)].map(
  ([, name, version, inside, reason]) => ({ name, version, inside, reason: reason ?? "" }),
);
const maintained = [...maintainedPart.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string);
const isMaintained = (name: string): boolean =>
  maintained.some((listed) => (listed.endsWith("/*") ? name.startsWith(listed.slice(0, -1)) : name === listed));
const isUnmaintained = (name: string, version: string | undefined): boolean =>
  unmaintained.some((row) => row.name === name && row.version === version);

test("every package of a production install is assessed", () => {
  assert.ok(installed.length > 100);
  const missing = installed.filter(({ name, version }) => !isUnmaintained(name, version) && !isMaintained(name));
  assert.equal(
    missing.map(({ name, version }) => `${name}@${version}`),
    [],
    "write them into bin/dependencies.md",
  );
});

test("an assessment ends with its package, and an unmaintained one with its version", () => {
  const gone = unmaintained.filter(
    ({ name, version }) => !installed.some((known) => known.name === name && known.version === version),
  );
  assert.equal(
    gone.map(({ name, version }) => `${name}@${version}`),
    [],
  );
  const unused = maintained.filter(
    (listed) =>
      !installed.some(({ name }) => (listed.endsWith("/*") ? name.startsWith(listed.slice(0, -1)) : name === listed)),
  );
  assert.equal(unused, []);
});

test("every unmaintained package has a reason to stay", () => {
  assert.ok(unmaintained.length > 30);
  assert.equal(
    unmaintained.filter(({ reason }) => reason.length < 20).map(({ name }) => name),
    [],
  );
});

test("nothing that runs at installation, and no telemetry, comes with a production install", () => {
  assert.equal(
    installed.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name),
    [],
  );
  const scarf = Object.entries(lock.packages).filter(([path]) => path.endsWith("@scarf/scarf"));
  assert.equal(scarf, [["node_modules/@scarf/scarf", { resolved: "bin/no-scarf", link: true }]]);
});

test("the lock file names no place to download from", () => {
  const placed = Object.entries(lock.packages).filter(
    ([, { resolved }]) => resolved !== undefined && /^[a-z+]+:/.test(resolved),
  );
  assert.equal(
    placed.map(([path]) => path),
    [],
  );
});

test.run();
