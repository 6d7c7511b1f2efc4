/** Requests with their answers, and tables, as text that diff can compare. Bodies are recorded to the byte. */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Db } from "../../src/store/db/types.ts";

export type Exchange = {
  method: string;
  path: string;
  /** Who asks, by name. */
  by: string;
  /** The body of the request, where the code of the chapter does not say it. */
  sent?: string;
  status: number;
  headers: Readonly<Record<string, unknown>>;
  body: string;
};

/** Headers that differ between two runs, and those of every answer. */
const LEFT_OUT = new Set([
  "connection",
  "content-length",
  "content-security-policy",
  "cross-origin-opener-policy",
  "cross-origin-resource-policy",
  "date",
  "keep-alive",
  "permissions-policy",
  "referrer-policy",
  "strict-transport-security",
  "transfer-encoding",
  "x-content-type-options",
  "x-frame-options",
  "x-request-id",
]);
const USUAL_TYPE = "application/json; charset=utf-8";

/** Longer bodies are recorded as their digest; the last run of `make replay` keeps them in `directory`. */
const MAX_BODY_CHARS = 600;
const MAX_SENT_CHARS = 120;

export type Recorder = {
  add(exchange: Exchange): void;
  note(text: string): void;
  /** Adds a text as its digest. */
  addDigest(title: string, text: string): void;
  /** Everything so far. */
  text(): string;
};

/** @param directory where long bodies are kept, each under its digest */
export function createRecorder(directory: string): Recorder {
  const pieces: string[] = [];
  return {
    add({ method, path, by, sent, status, headers, body: original }) {
      // It names the commit of the checkout, and its validator follows from that.
      const isVersion = /^\/version\b/.test(path);
      const body = isVersion ? original.replace(/"commit":"[^"]*"/, '"commit":null') : original;
      const shown = Object.entries(headers)
        .filter(([name, value]) => !LEFT_OUT.has(name) && !(name === "content-type" && value === USUAL_TYPE))
        .filter(([name]) => !(isVersion && name === "etag"))
        .map(([name, value]) => `${name}: ${String(value)}\n`)
        .sort();
      const asked = sent === undefined ? "" : `> ${shorten(oneLine(sent))}\n`;
      pieces.push(`${method} ${path} (${by}) ${status}\n${asked}${shown.join("")}${keep(body, directory)}\n`);
    },
    note: (text) => void pieces.push(`${text}\n`),
    addDigest: (title, text) => void pieces.push(`${title}: ${keepWhole(text, directory)}\n`),
    text: () => pieces.join("\n"),
  };
}

const oneLine = (text: string): string => JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
const shorten = (text: string): string =>
  text.length > MAX_SENT_CHARS
    ? `${text.slice(0, MAX_SENT_CHARS).toWellFormed()}… (${text.length} characters, ${sha256(text)})`
    : text;
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

function keep(body: string, directory: string): string {
  const isText = !/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(body);
  return body.length <= MAX_BODY_CHARS && isText ? body : keepWhole(body, directory);
}

function keepWhole(text: string, directory: string): string {
  const digest = sha256(text);
  writeFileSync(join(directory, digest), text);
  return `${text.length} characters, ${digest}`;
}

/** Columns that can differ: salted passwords, what SQLite draws, how many changes shared a commit, and durations. */
const RANDOM = new Set([
  ...["passwords.hash", "passwords.salt", "commit_number.database_id", "commit_number.number"],
  "rego_evaluations.duration_ms",
]);

/** The text of each table, all of its rows in the order of their keys. */
export function tablesAsText(db: Db): Map<string, string> {
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .pluck()
    .all();
  return new Map(
    tables.map((table) => {
      const rows = db.prepare<[], Record<string, unknown>>(`SELECT * FROM ${table} ORDER BY 1, 2`).all();
      const lines = rows.map((row) =>
        JSON.stringify(
          Object.fromEntries(
            Object.entries(row).map(([name, value]) => [name, RANDOM.has(`${table}.${name}`) ? null : shown(value)]),
          ),
        ),
      );
      return [table, [`${table}: ${rows.length} rows`, ...lines, ""].join("\n")];
    }),
  );
}

const shown = (value: unknown): unknown => (value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value);
