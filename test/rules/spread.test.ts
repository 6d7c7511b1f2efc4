/**
 * A spread argument becomes one stack slot per item: V8 throws a RangeError from about 120,000 items on, and a user who
 * sends that many turns it into a 500. Lists whose length follows from data are therefore never spread into a call.
 */
import { stripTypeScriptTypes } from "node:module";
import { parse } from "acorn";
import type { Node } from "acorn";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sourceFiles } from "./source.ts";

const test = suite("rules/spread");

/** `path ...argument` of the calls that may: each argument has a length that only our own code decides. */
const ALLOWED: Readonly<Record<string, string>> = {
  "src/contract/urls.ts ...parts": "segments of a path template, listed by the caller",
  "src/cli/commands/config.ts ...shown.map(({ option }) => option.length)": "one for each option",
  "src/cli/commands/doctor.ts ...checks.map(({ name }) => name.length)": "one for each check",
  "src/cli/framework.ts ...rows.map(([head]) => head.length)": "rows of a help text",
  "src/cli/help-search.ts ...details": "lines of a help text",
  "src/cli/help-search.ts ...own.flatMap(([flag, option]) => [flag, option.description])": "options of a command",
  "src/cli/commands/key.ts ...ends": "two times",
  ["src/cli/install/systemd-unit.ts ...credentials.map(({ name, path }) => " +
    "`LoadCredential=${name}:${quoteUnitPath(path)}`)"]: "one for each option that is a secret",
  "src/cli/commands/verify.ts ...results.map(({ name }) => name.length)": "one for each check",
  "src/config/resolve.ts ...heads.map((head) => head.length)": "one for each option",
  "src/http/security-headers.ts ...TRANSPORT_SECURITY": "a header and its value",
  "src/notifications/compose-messages.ts ...ARTIFACT_TRIGGERS": "a constant",
  "src/auth/oidc-provider.ts ...request": "arguments of a function, passed on",
  "src/audit-packages/readme.ts ...members.map(([name]) => name.length)": "the kinds of members of a package",
  "src/server/instance.ts ...request": "a request and its response",
  "src/store/accounts/api-keys.ts ...ends": "three times",
  "src/store/flows/artifacts.ts ...FIELD_NAMES.map((field) => fields[field])": "one for each column",
  "src/store/attestations/attestation-lists.ts ...bounds(span)": "a pair",
  "src/store/attestations/attestations.ts ...FIELD_NAMES.map((field) => record[field])": "one for each column",
  "src/store/db/group-commit.ts ...batch": "at most MAX_BATCH_JOBS",
  "src/store/db/jobs.ts ...times": "two times",
  "src/store/db/lazy-statement.ts ...values": "parameters of a statement, which its callers list",
  "src/store/flows/repos.ts ...values": "one for each column",
};

type Syntax = Node & {
  callee?: Syntax;
  property?: Syntax & { name?: string };
  arguments?: Syntax[];
  argument?: Syntax;
};

/** The arguments of calls that are spread, and calls of a function's `apply`, which does the same. */
function spreadsIn(text: string): string[] {
  // Types become blanks of the same length, so positions stay those of the source.
  const script = stripTypeScriptTypes(text);
  const found: string[] = [];
  const sourceOf = (node: Node): string => text.slice(node.start, node.end).replace(/\s+/g, " ");
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) {
      for (const one of value) visit(one);
      return;
    }
    if (typeof value !== "object" || value === null || typeof (value as Syntax).type !== "string") return;
    const node = value as Syntax;
    if (node.type === "CallExpression" || node.type === "NewExpression") {
      for (const item of node.arguments ?? [])
        if (item.type === "SpreadElement" && item.argument) found.push(`...${sourceOf(item.argument)}`);
      const { callee } = node;
      const isApply = callee?.type === "MemberExpression" && callee.property?.name === "apply";
      if (isApply && !sourceOf(callee).endsWith("store.snapshotRecorder.apply")) found.push(sourceOf(node));
    }
    Object.values(node).forEach(visit);
  };
  visit(parse(script, { ecmaVersion: "latest", sourceType: "module" }));
  return found;
}

test("the search finds spread arguments and calls of apply, and nothing else", () => {
  const text =
    "const a: number = Math.max(...list);\nnew Set<string>(...(b as string[]));\nf.apply(null, list);\nconst " +
    "c = [...list, { ...d }];\nfunction g(...rest: number[]) {}";
  assert.equal(spreadsIn(text), ["...list", "...b", "f.apply(null, list)"]);
});

test("no list whose length follows from data is spread into a call", () => {
  const found = sourceFiles("src").flatMap(({ path, text }) => spreadsIn(text).map((spread) => `${path} ${spread}`));
  assert.equal(
    found.filter((place) => !(place in ALLOWED)),
    [],
    "loop over it, or pass the list as one argument",
  );
  assert.equal(
    Object.keys(ALLOWED).filter((place) => !found.includes(place)),
    [],
    "entries of ALLOWED without a place",
  );
});

test.run();
