/**
 * What every command prints and returns, right and wrong, is what it was the last time:
 * `make test PATTERN='^cli/golden'`. RECORD=1 in the environment records it; the difference is read and committed.
 *
 * Ids, secrets, times and names of this machine differ in every run. Each stands as a word for its kind; ids and
 * secrets are numbered, so that the same one is seen again.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { osUserName } from "../../src/clock.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import type { Store } from "../../src/store/index.ts";
import type { Db } from "../../src/store/db/types.ts";
import { addMemberWithAccounts, addMessages, addSessions, addTrail } from "./golden-given.ts";
import { CHAPTERS } from "./golden-lines.ts";
import type { Line } from "./golden-lines.ts";
import { cli, inDirectory, look } from "./in-process.ts";
import type { Outcome } from "./in-process.ts";

const RECORDED = join(import.meta.dirname, "..", "cases", "cli", "commands.txt");

const test = suite("cli/golden");

/** What is there before a chapter. */
const GIVEN: Readonly<Record<string, (store: Store, db: Db) => void>> = {
  members: addMemberWithAccounts,
  "messages and secrets of actions": addMessages,
  "sessions and disabled users": addSessions,
  retention: addTrail,
};

/** Commands that serve until they are stopped, or look at the whole machine. */
const LONG = new Set(["serve", "dev", "health", "docker", "systemd"]);

test("commands print and return what they did the last time", () =>
  inDirectory(async (directory) => {
    const mask = createMask(directory);
    const pieces: string[] = [];
    const places = {
      DATA: join(directory, "data"),
      EMPTY: join(directory, "empty"),
      URL: "https://assay.example.com",
    };
    mkdirSync(places.EMPTY);
    const kept = new Map<string, string>(Object.entries(places));
    const run = async (line: Line): Promise<Outcome> => {
      const { line: words, keep, ...surroundings } = typeof line === "string" ? { line, keep: undefined } : line;
      const outcome = await cli(splitWords(words, kept), { cwd: places.EMPTY, ...surroundings });
      if (keep) {
        const found = keep[1].exec(outcome.out)?.[1];
        assert.ok(found, `${words} keeps ${keep[0]}: ${outcome.out}${outcome.err}`);
        kept.set(keep[0], found as string);
      }
      pieces.push(mask(showRun(words, surroundings, outcome)));
      return outcome;
    };
    for (const { name, lines } of CHAPTERS) {
      pieces.push(`## ${name}\n`);
      const seed = GIVEN[name];
      if (seed) look(places.DATA, seed);
      for (const line of lines) await run(line);
      pieces.push(mask(look(places.DATA, (_, db) => showHistory(db))));
    }
    pieces.push("## without data\n");
    for (const line of firstRightLines()) await run(line);
    pieces.push("## help and unknown options\n");
    for (const { name } of COMMANDS) {
      await run(`${name} --help`);
      await run(`${name} --frobnicate`);
      await run(`${name} --frobnicate --json`);
    }
    compare(pieces.join("\n"));
  }));

/** A line of each command that works on data, on a directory without any. */
function firstRightLines(): string[] {
  const lines = CHAPTERS.flatMap((chapter) => chapter.lines)
    .map((line) => (typeof line === "string" ? line : line.line))
    .filter((line) => line.includes("$DATA"));
  return COMMANDS.filter(({ name }) => !LONG.has(name) && name !== "init" && name !== "apply").flatMap(({ name }) => {
    const line = lines.find((one) => one.startsWith(`${name} `));
    return line === undefined ? [] : [line.replace("$DATA", "$EMPTY/none")];
  });
}

function splitWords(line: string, values: ReadonlyMap<string, string>): string[] {
  return [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) =>
    (quoted ?? word ?? "")
      .replaceAll("\\n", "\n")
      .replace(/\$([A-Z0-9]+)/g, (text, name: string) => values.get(name) ?? text),
  );
}

function showRun(
  line: string,
  { stdin, typed }: { stdin?: string; typed?: (string | null)[] },
  { code, out, err }: Outcome,
): string {
  const indent = (mark: string, text: string): string => text.replace(/^(?=.|\n)/gm, mark).replace(/\n?$/, "\n");
  return [
    `$ assay ${line}\n`,
    stdin ? indent("< ", stdin) : "",
    typed ? "(at a terminal)\n" : "",
    out === "" ? "" : indent("  ", out),
    err === "" ? "" : indent("! ", err),
    code === 0 ? "" : `exit ${code}\n`,
  ].join("");
}

/** The audit log and the history of memberships that the lines so far left, newer rows only. */
const shownUntil = { audit: 0, memberships: 0 };
function showHistory(db: Db): string {
  const audit = db
    .prepare<[number], { id: number; line: string }>(
      `SELECT id, actor_kind || ' ' || actor_name || ': ' || operation || ': ' || event || ' of ' || target
         || coalesce(' ' || detail_json, '') AS line
       FROM audit_log WHERE id > ? ORDER BY id`,
    )
    .all(shownUntil.audit);
  const memberships = db
    .prepare<[number], { id: number; line: string }>(
      `SELECT id, event_type || ' ' || user_name || ' ' || coalesce(role, '-') || ' by ' || changed_by
         || ', ' || source AS line
       FROM membership_events WHERE id > ? ORDER BY id`,
    )
    .all(shownUntil.memberships);
  shownUntil.audit = audit.at(-1)?.id ?? shownUntil.audit;
  shownUntil.memberships = memberships.at(-1)?.id ?? shownUntil.memberships;
  const lines = (rows: readonly { line: string }[]): string => rows.map(({ line }) => `  ${line}\n`).join("");
  return `audit log:\n${lines(audit)}memberships:\n${lines(memberships)}`;
}

/** Replaces what differs in every run. */
function createMask(directory: string): (text: string) => string {
  const known = new Map<string, string>();
  const number = (kind: string) => {
    let count = 0;
    return (text: string): string => {
      const name = known.get(text) ?? `<${kind} ${(count += 1)}>`;
      known.set(text, name);
      return name;
    };
  };
  const [ids, secrets] = [number("id"), number("secret")];
  const user = osUserName();
  return (text) =>
    text
      .replaceAll(directory, "<directory>")
      .replaceAll(`operator (${user})`, "operator (<user>)")
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{8}/g, ids)
      .replace(/(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{43}(?![\w-])/g, secrets)
      .replace(/\b20(?!30)\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, "<time>")
      .replace(/\b1[78]\d{8}(?:\.\d+)?\b/g, "<epoch>");
}

function compare(text: string): void {
  if (process.env["RECORD"]) {
    mkdirSync(dirname(RECORDED), { recursive: true });
    writeFileSync(RECORDED, text);
    return;
  }
  const [before, now] = [readFileSync(RECORDED, "utf8").split("\n"), text.split("\n")];
  const at = now.findIndex((line, index) => line !== before[index]);
  if (at === -1 && before.length === now.length) return;
  const start = now.findLastIndex((line, index) => index <= at && line.startsWith("$ "));
  const shown = [
    ...now.slice(Math.max(0, start), at),
    `was: ${before[at] ?? "the end"}`,
    `is:  ${now[at] ?? "the end"}`,
  ];
  throw new Error(`line ${at + 1} of ${RECORDED} differs; RECORD=1 records it\n${shown.join("\n")}`);
}

test.run();
