/**
 * The input document of an evaluation on the server, compared with the one that the released client builds itself from
 * the API's reads and prints with `--show-input` (newer-clients 6.1).
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { untar } from "../../src/archive/untar.ts";
import { KINDS } from "../../src/domain/attestation/kinds.ts";
import { schemaVersion } from "../../src/store/db/database.ts";
import { constant } from "../api/policies/rego-given.ts";
import type { Json } from "../api/policies/rego-given.ts";
import { createClient, expectStatus } from "../binary/client.ts";
import type { Client } from "../binary/client.ts";
import { inDirectory, run, start } from "../binary/executable.ts";
import { ACCOUNTS, BOT_KEY, tell } from "../cases/upgrades/story.ts";
import { worksHere } from "./programs.ts";

const test = suite("integration/kosli-input");

// Older releases have no such command.
const hasCli = worksHere("kosli", "evaluate", "trails", "--help");
if (!hasCli) console.log("skipped: kosli evaluate trail --show-input, for want of kosli");
const withCli = hasCli ? test : test.skip;

const FLOW = "shop";
const TRAILS = ["release-1", "release-2"] as const;

/** Members of a trail that only the server's document has, and those that differ, with the rule. */
const ADDED: Readonly<Record<string, string>> = {
  flow_name: "newer-clients 6.1: the first line of the element",
  moment_number: "newer-clients 6.1: counts the changes of the trail",
  template_id: "newer-clients 6.1: the first line of the element",
  trail_name: "newer-clients 6.1: the first line of the element",
};
const CHANGED: Readonly<Record<string, string>> = {
  created_at: "newer-clients 6.1: that of the moment, and not of the trail",
};

/** Where two documents differ, by path: "added" is in `other` only, "missing" in `one` only. */
function differences(one: unknown, other: unknown, at: string): Record<string, string> {
  if (Object.is(one, other)) return {};
  const areLists = Array.isArray(one) && Array.isArray(other);
  if (!areLists && !(isObject(one) && isObject(other))) return { [at]: "changed" };
  const [left, right] = [one, other] as [Json, Json];
  return Object.assign(
    {},
    ...[...new Set([...Object.keys(left), ...Object.keys(right)])].map((name) => {
      const path = `${at}.${name}`;
      if (!(name in left)) return { [path]: "added" };
      if (!(name in right)) return { [path]: "missing" };
      return differences(left[name], right[name], path);
    }),
  ) as Record<string, string>;
}
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The differences that are meant, of the trail at a path. */
const intended = (at: string): Record<string, string> =>
  Object.fromEntries([
    ...Object.keys(ADDED).map((name) => [`${at}.${name}`, "added"]),
    ...Object.keys(CHANGED).map((name) => [`${at}.${name}`, "changed"]),
  ]) as Record<string, string>;

/** The status entries of a trail and of its artifacts. */
const entriesOf = ({ attestations_statuses, artifacts_statuses }: Json): Json[] => [
  ...Object.values<Json>(attestations_statuses),
  ...Object.values<Json>(artifacts_statuses).flatMap((artifact) =>
    Object.values<Json>(artifact["attestations_statuses"]),
  ),
];

type Place = { url: string; key: string; client: Client };

/** Starts the executable and tells it the story of the upgrades, which has attestations of every kind. */
const withStory = (body: (place: Place) => Promise<void>): Promise<void> =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    const { stdout } = await run(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    const key = stdout.trim();
    writeFileSync(join(home, "apply.yml"), ACCOUNTS);
    const server = await start([
      ...["serve", "--data", data, "--listen", "127.0.0.1:0"],
      ...["--bootstrap", join(home, "apply.yml"), "--log-level", "error"],
    ]);
    try {
      const client = createClient(server.url, key);
      await tell(client, createClient(server.url, BOT_KEY), schemaVersion());
      await body({ url: server.url, key, client });
    } finally {
      await server.stop();
    }
  });

/** The document that the client builds itself. */
const showInput = ({ url, key }: Place, words: readonly string[]): Promise<Json> =>
  inDirectory(async (cwd) => {
    writeFileSync(join(cwd, "policy.rego"), constant(true));
    const what = ["--flow", FLOW, "--policy", "policy.rego", "--show-input", "--output", "json"];
    const to = ["--host", url, "--org", "acme", "--api-token", key];
    const env = { PATH: process.env["PATH"] ?? "", HOME: cwd };
    const shown = await run(["evaluate", ...words, ...what, ...to], { executable: "kosli", cwd, env });
    assert.is(shown.code, 0, shown.stderr);
    return JSON.parse(shown.stdout).input as Json;
  });

/** The document that the server stored for an evaluation of those trails: alone, and in the export. */
async function storedInput({ client }: Place, trails: readonly string[]): Promise<Json> {
  const { id } = await expectStatus(
    client.json("POST", "/evaluations/acme", {
      context: { trails: trails.map((trail) => ({ flow: FLOW, trail })) },
      policy: { files: { "policy.rego": constant(true) } },
    }),
    201,
  );
  const stored = await client.json("GET", `/evaluations/acme/${id}/input`);
  const bundle = await client.json("GET", `/evaluations/acme/${id}/bundle`);
  assert.equal([stored.status, bundle.status], [200, 200]);
  const exported = [...untar(gunzipSync(bundle.bytes))].find(({ name }) => name === "input.json");
  assert.is(exported?.content.toString(), stored.bytes.toString());
  return JSON.parse(stored.bytes.toString()) as Json;
}

withCli("the stored input of a trail is what the client shows, but for what the contract adds and changes", () =>
  withStory(async (place) => {
    const types = new Set<string | null>();
    for (const trail of TRAILS) {
      const shown = await showInput(place, ["trail", trail]);
      const stored = await storedInput(place, [trail]);
      assert.equal(Object.keys(shown), ["trail"]);
      assert.equal(stored["trails"], [stored["trail"]]);
      assert.equal(differences(shown["trail"], stored["trail"], "trail"), intended("trail"));
      // An entry that was overridden keeps the type of what was overridden.
      for (const { attestation_type, overridden_attestation_id } of entriesOf(shown["trail"].compliance_status))
        for (const type of [attestation_type, overridden_attestation_id === null ? null : "override"]) types.add(type);
      assert.is(stored["trail"].template_id, shown["trail"].compliance_status.flow_template_id);
      assert.is(stored["trail"].created_at, shown["trail"].last_modified_at);
    }
    const labels = KINDS.map(({ label, segment }) => label ?? `${segment}:coverage`);
    assert.equal(
      labels.filter((label) => !types.has(label)),
      [],
    );
  }),
);

withCli("the stored input of several trails is the list that the client shows, and has no single trail", () =>
  withStory(async (place) => {
    const shown = await showInput(place, ["trails", ...TRAILS]);
    const stored = await storedInput(place, TRAILS);
    assert.equal([Object.keys(shown), Object.keys(stored)], [["trails"], ["trails"]]);
    assert.equal(differences(shown["trails"], stored["trails"], "trails"), {
      ...intended("trails.0"),
      ...intended("trails.1"),
    });
  }),
);

test.run();
