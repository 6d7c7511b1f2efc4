/** Retired words: private names of things that have a name, and sentences that were translated word for word. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROOT } from "./source.ts";

const test = suite("rules/prose");

/** A pattern, and what to write in its place. */
const RETIRED: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\b(?:House|Room|Door|Letter|Presence|Happening|Judgement|Chores?|Manners)\b/, "the names of docs/glossary.md"],
  [
    /\b(?:knock|whoIsWho|shownName|callerOf|lookAround|tryOut|parseSnappish|createUnchanged|startedUnseen)\w*/i,
    "the field's term",
  ],
  [/\b(?:MOST|LONGEST|LARGEST|LEAST|SHORTEST|FEWEST)_[A-Z]/, "MAX_ or MIN_"],
  [/\b(?:PATIENCE|COME_AGAIN|AT_ONCE|TOLD)\b/, "a name that says what is bounded, with its unit"],
  [/\bjudge(?:s|d|ment|ments)?\b|\bjudging\b|\bjudgements?\b/i, "evaluate, evaluation, verdict"],
  [/\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever)\b/, "the principal, the client, the operator, an attacker; or nothing"],
  [/\b(?:is|are|was|were|be|being|been) told\b/i, "is notified, reports, learns"],
  [/\btold (?:of|apart)\b/i, "is notified of, is distinguished"],
  [/(?<!there )\b(?:is|are) no (?!longer\b|more\b|such\b|one\b|reason\b|filters?\b|\d)[a-z]/i, "is not a"],
  [/\bwhat is no\b|\bof which (?:less|more) is\b|\bso and so\b/i, "a plain sentence"],
  [/\bwrite on trial\b|\bon trial\b/i, "test write"],
  [/\btried again\b|\btries again\b|\btry it again\b/i, "retried"],
  [/\bjudged again\b|\bevaluated again\b|\blooked at again\b/i, "re-evaluated"],
  [/\btakes? no changes\b|\btaking no changes\b/i, "read-only mode"],
  [/\bLook at it\b/, "View details"],
  [/\bhas it already\b/, "not modified"],
];

/** Files whose words are not ours alone: data, and texts that a contract fixes, each with the reason. */
const EXEMPT: Readonly<Record<string, string>> = {
  "src/store/migrations/0003-whole-api.sql": "a released migration is never changed",
  "src/store/migrations/0004-appliance.sql": "a released migration is never changed",
  "src/store/migrations/0005-corrections.sql": "a released migration is never changed",
};

const files = [
  "src/**/*.{ts,md,sql}",
  "README.md",
  "CHANGELOG.md",
  "schema.sql",
  "test/rules/goldens/openapi/*.json",
].flatMap((pattern) => globSync(pattern, { cwd: ROOT }));

const offencesIn = (path: string): string[] =>
  readFileSync(join(ROOT, path), "utf8")
    .split("\n")
    .flatMap((line, index) =>
      RETIRED.filter(([pattern]) => pattern.test(line)).map(
        ([pattern, instead]) => `${path}:${index + 1}: "${pattern.exec(line)?.[0]}": write ${instead}`,
      ),
    );

test("no source file, guide page or OpenAPI description uses a retired word", () => {
  assert.equal(files.filter((path) => !(path in EXEMPT)).flatMap(offencesIn), []);
});

test("every exemption is of a file that needs it", () => {
  assert.equal(
    Object.keys(EXEMPT).filter((path) => offencesIn(path).length === 0),
    [],
  );
});

test.run();
