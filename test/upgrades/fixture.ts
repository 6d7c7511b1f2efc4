/** The databases of released schemas (test/cases/upgrades), each with the responses of its program. */
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { schemaVersion } from "../../src/store/db/database.ts";

const PLACE = join(import.meta.dirname, "..", "cases", "upgrades");

export type Fixture = {
  schema: number;
  /** The key of an admin of the organization `acme`. */
  key: string;
  /** Response bodies by path; for evidence the content as a text. */
  answers: Record<string, unknown>;
};

/** The schema versions that have a fixture, in order. */
export const fixtureVersions = (): number[] =>
  readdirSync(PLACE)
    .flatMap((name) => (/^schema-\d+$/.test(name) ? [Number(name.slice(7))] : []))
    .sort((a, b) => a - b);

/** Those that a start upgrades. */
export const olderVersions = (): number[] => fixtureVersions().filter((version) => version < schemaVersion());

/** Copies a fixture into an empty directory, as the data directory that a server of its time left. */
export function place(schema: number, directory: string): Fixture {
  const from = join(PLACE, `schema-${schema}`);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeFileSync(join(directory, "assay.db"), gunzipSync(readFileSync(join(from, "assay.db.gz"))), { mode: 0o600 });
  if (existsSync(join(from, "evidence")))
    cpSync(join(from, "evidence"), join(directory, "evidence"), { recursive: true });
  const { key, answers } = JSON.parse(readFileSync(join(from, "answers.json"), "utf8")) as Omit<Fixture, "schema">;
  return { schema, key, answers };
}

/** The base URL of all fixtures: responses contain links. */
export const BASE_URL = "https://assay.example.com";

/** Makes a database look as if a program of a later schema had written it. */
export function age(directory: string, version: number): void {
  const file = join(directory, "assay.db");
  const bytes = readFileSync(file);
  bytes.writeUInt32BE(version, 60);
  writeFileSync(file, bytes);
}

/**
 * The parts of `expected` that `actual` lacks, as paths with both values. New members are allowed, changed values are
 * not, and lists must have the same length.
 */
export function lost(expected: unknown, actual: unknown, at = ""): string[] {
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length)
      return [`${at}: a list of ${expected.length} became ${JSON.stringify(actual)?.slice(0, 200)}`];
    return expected.flatMap((value, place) => lost(value, actual[place], `${at}[${place}]`));
  }
  if (typeof expected === "object" && expected !== null) {
    if (typeof actual !== "object" || actual === null || Array.isArray(actual))
      return [`${at}: an object became ${JSON.stringify(actual)}`];
    const found = actual as Record<string, unknown>;
    return Object.entries(expected).flatMap(([name, value]) =>
      name in found
        ? lost(value, found[name], `${at}.${name}`)
        : [`${at}.${name}: ${JSON.stringify(value)?.slice(0, 200)} is gone`],
    );
  }
  return Object.is(expected, actual) ? [] : [`${at}: ${JSON.stringify(expected)} became ${JSON.stringify(actual)}`];
}

/**
 * Intended differences: the duration of the latest snapshot grows; schema 3 added audit packages; optional members of a
 * commit that were not sent are left out; a trail without a description reads as an empty string; the URL of an
 * artifact record distinguishes it from others of its fingerprint.
 */
export const MOVES = new RegExp(
  [
    String.raw`\.duration: `,
    String.raw`\.has_audit_package: false became true$`,
    String.raw`\.git_commit_info\.(?:author_username|url|parents|verified|signature_state): null is gone$`,
    String.raw`^/trails/.*\.description: null became ""$`,
    String.raw`\.(?:api_url|href|self): "([^"?]*)" became "\1\?(?:trail|artifact_id)=[^"]*"$`,
  ].join("|"),
);
