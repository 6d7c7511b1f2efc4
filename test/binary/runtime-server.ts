// Starts the executable with an organization that has an account for every role, and provides the helpers with which
// the runtime tests change and read it.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "./client.ts";
import type { Client, Json, Method } from "./client.ts";
import { start } from "./executable.ts";
import type { Running } from "./executable.ts";

const KEYS = {
  member: "key-of-the-member-of-the-runtime-scenarios-1",
  admin: "key-of-the-admin-of-the-runtime-scenarios-2",
  snapshotter: "key-of-the-snapshotter-of-these-scenarios-3",
  reader: "key-of-the-reader-of-the-runtime-scenarios-4",
  stranger: "key-of-a-stranger-to-the-runtime-scenarios-5",
  publisher: "key-of-the-member-of-the-public-organization",
  unknown: "key-that-was-never-issued-in-these-scenarios",
};
export type Role = keyof typeof KEYS;

const accountYaml = (role: Role, privilege: string = role): string =>
  `      - {name: ${role}, privilege: ${privilege}, api_keys: [{description: ci, key: "${KEYS[role]}"}]}\n`;
const APPLY = `
users:
  - name: ops
organizations:
  - name: acme
    members: [{user: ops, role: admin}]
    service_accounts:
${accountYaml("member")}${accountYaml("admin")}${accountYaml("snapshotter")}${accountYaml("reader")}
  - name: rivals
    members: [{user: ops, role: admin}]
    service_accounts:
${accountYaml("stranger", "admin")}
  - name: open
    public: true
    members: [{user: ops, role: admin}]
    service_accounts:
${accountYaml("publisher", "member")}
`;

export const API = "https://assay.example.com/api/v2";
export const PAGES = "https://assay.example.com/acme";
export const MEMBER = "member";

/** A distinct fingerprint for each label. */
export const fingerprintOf = (label: string): string => createHash("sha256").update(label).digest("hex");
/** A distinct commit for each label. */
export const commitOf = (label: string): string => createHash("sha1").update(label).digest("hex");
/** Author time of every commit, epoch seconds. */
export const COMMITTED_AT = 1_767_222_000;
/** When every reported process started, epoch seconds. */
export const STARTED_AT = 1_767_225_600;

export const policyYaml = (rules: string): string =>
  `_schema: https://kosli.com/schemas/policy/environment/v1\nartifacts:\n${rules}`;
export const PROVENANCE_POLICY = policyYaml("  provenance:\n    required: true\n");
export const TRAIL_POLICY = policyYaml("  trail-compliance:\n    required: true\n");

/** A flow template that expects an artifact `app` with an attestation `scan`. */
export const SCAN_TEMPLATE =
  "version: 1\ntrail:\n  artifacts:\n    - name: app\n" +
  "      attestations:\n        - name: scan\n          type: generic\n";

type Build = { flow: string; trail: string; name: string; reference?: string; label?: string; repo?: string };
export type RuntimeServer = Awaited<ReturnType<typeof startRuntimeServer>>;

/** Starts the executable on an empty data directory; `close` stops it and removes the directory. */
export async function startRuntimeServer() {
  const directory = mkdtempSync(join(tmpdir(), "assay-test-"));
  const file = join(directory, "apply.yml");
  writeFileSync(file, APPLY);
  const serve = (...more: string[]): Promise<Running> =>
    start([
      "serve",
      "--data",
      join(directory, "data"),
      "--listen",
      "127.0.0.1:0",
      "--base-url",
      "https://assay.example.com",
      ...more,
    ]);
  let running = await serve("--bootstrap", file);

  const as = (role: Role, dialect?: "cli" | "terraform" | "webhook"): Client =>
    createClient(running.url, KEYS[role], dialect);
  const json = (method: Method, path: string, body?: unknown) => as(MEMBER).json(method, path, body);
  const read = (path: string): Promise<any> => expectStatus(json("GET", path), 200);
  const expectDone = async (response: ReturnType<typeof json>, status: number): Promise<void> =>
    void assert.is(await expectStatus(response, status), "OK");
  const yaml = (part: string, content: string) => ({ part, name: `${part}.yml`, content });

  /** Stops the server with the signal and starts another one on the same data. */
  async function restart(signal: NodeJS.Signals): Promise<void> {
    assert.equal(
      await running.stop(signal),
      signal === "SIGKILL" ? { code: null, signal } : { code: 0, signal: null },
      running.output(),
    );
    running = await serve();
  }
  const readSnapshot = (environment: string, expression = "-1"): Promise<any> =>
    read(`/snapshots/acme/${environment}/${expression}`);

  return {
    as,
    json,
    read,
    readSnapshot,
    readState: async (environment: string): Promise<unknown> => (await read(`/environments/acme/${environment}`)).state,
    /** The number of snapshots that `list snapshots` shows. */
    countSnapshots: async (environment: string): Promise<number> =>
      (await read(`/snapshots/acme/${environment}?interval=&page=1&per_page=1000&reverse=false`)).length,
    readAnnotations: async (environment: string, expression = "-1"): Promise<unknown[]> =>
      summarizeArtifacts(await readSnapshot(environment, expression)),
    restart,
    /** Expects this status, and a body that is this message and nothing else. */
    async expectRefusal(method: Method, path: string, status: number, message: string, body?: unknown): Promise<void> {
      assert.equal(await expectStatus(json(method, path, body), status), { message }, `${method} ${path}`);
    },
    /** Expects a 400 with these field errors. */
    async expectInvalid(method: Method, path: string, errors: Record<string, string>, body?: unknown): Promise<void> {
      assert.equal(
        await expectStatus(json(method, path, body), 400),
        { message: "Input payload validation failed", errors },
        `${method} ${path}`,
      );
    },
    createFlow: (name: string, template?: string): Promise<void> =>
      expectDone(
        as(MEMBER).form(
          "PUT",
          "/flows/acme/template_file",
          "data_json",
          { name, description: "", visibility: "private" },
          template === undefined ? undefined : yaml("template_file", template),
        ),
        201,
      ),
    /** Reports an artifact whose commit and fingerprint derive from its label. */
    reportArtifact: ({
      flow,
      trail,
      name,
      reference = "app",
      label = name,
      repo = "acme/shop",
    }: Build): Promise<void> => {
      const url = `https://github.com/${repo}`;
      const git_commit = commitOf(label);
      const commit_url = `${url}/commit/${git_commit}`;
      const git_commit_info = {
        sha1: git_commit,
        message: label,
        author: "Ada <ada@example.com>",
        timestamp: COMMITTED_AT,
        branch: "main",
        url: commit_url,
      };
      const repo_info = { name: repo, id: repo, url, provider: "github" };
      return expectDone(
        json("POST", `/artifacts/acme/${flow}`, {
          fingerprint: fingerprintOf(label),
          filename: name,
          git_commit,
          git_commit_info,
          build_url: "https://ci.example.com/17",
          commit_url,
          repo_url: url,
          repo_info,
          template_reference_name: reference,
          trail_name: trail,
        }),
        201,
      );
    },
    /** Reports an attestation of the labelled artifact, or of the trail when there is no label. */
    attest: ({
      flow,
      trail,
      label,
      name,
      is_compliant = true,
    }: {
      flow: string;
      trail: string;
      label?: string;
      name: string;
      is_compliant?: boolean;
    }): Promise<void> => {
      const target = label === undefined ? {} : { artifact_fingerprint: fingerprintOf(label) };
      return expectDone(
        as(MEMBER).form("POST", `/attestations/acme/${flow}/trail/${trail}/generic`, "data_json", {
          attestation_name: name,
          ...target,
          is_compliant,
          user_data: {},
        }),
        201,
      );
    },
    putPolicy: async (name: string, content: string, status: 200 | 201 = 201): Promise<any> =>
      expectStatus(
        as(MEMBER).form(
          "PUT",
          "/policies/acme",
          "payload",
          { name, description: "", type: "env", comment: "" },
          yaml("policy_file", content),
        ),
        status,
      ),
    createEnvironment: (name: string, type: string, fields: Json = {}): Promise<void> =>
      expectDone(json("PUT", "/environments/acme", { name, type, description: "", ...fields }), 201),
    /** Reports items of an environment type. */
    report: (name: string, type: string, artifacts: readonly Json[], status: 200 | 201): Promise<void> =>
      expectDone(json("PUT", `/environments/acme/${name}/report/${type}`, { artifacts }), status),
    /** Reports what runs on a server: each name with the label of its fingerprint, or "" for no fingerprint. */
    reportServer: (
      name: string,
      labels: Record<string, string>,
      status: 200 | 201,
      started = STARTED_AT,
    ): Promise<void> =>
      expectDone(
        json("PUT", `/environments/acme/${name}/report/server`, { artifacts: reportItems(labels, started) }),
        status,
      ),
    archive: (path: string): Promise<void> => expectDone(json("PUT", `${path}/archive`, null), 200),
    expectOk: (method: Method, path: string, body?: unknown): Promise<void> =>
      expectDone(json(method, path, body), 200),
    /** Reads these paths, then restarts the server with each of the signals in turn and expects the same responses. */
    async expectSameAfter(signals: readonly NodeJS.Signals[], paths: readonly string[]): Promise<void> {
      const readings = new Map<string, unknown>();
      for (const path of paths) readings.set(path, withoutDuration(await read(path)));
      for (const signal of signals) {
        await restart(signal);
        for (const [path, before] of readings) assert.equal(withoutDuration(await read(path)), before, path);
      }
    },
    async close(): Promise<void> {
      await running.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The artifacts of a snapshot in short: name, annotation type, verdict. */
export const summarizeArtifacts = ({ artifacts }: Json): unknown[] =>
  artifacts.map(({ name, annotation, compliant }: Json) => [name, annotation.type, compliant]);

/** Events in short: snapshot, artifact, type, description and flow. */
export const summarizeEvents = (events: Json[]): unknown[] =>
  events.map(({ environment_name, snapshot_index, artifact_name, type, description, pipeline }) => [
    `${environment_name}#${snapshot_index}`,
    artifact_name,
    type,
    description,
    pipeline,
  ]);

/** The items of a report: each name with the label of its fingerprint, or "" for no fingerprint. */
export const reportItems = (labels: Record<string, string>, started = STARTED_AT): Json[] =>
  Object.entries(labels).map(([name, label]) => ({
    digests: { [name]: label === "" ? "" : fingerprintOf(label) },
    creationTimestamp: started,
  }));

/** A body without the one value that changes with time alone: how long the latest snapshot has been in force. */
const withoutDuration = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body), (_, value) =>
    value?.to === 0 && "duration" in value ? { ...value, duration: "until now" } : value,
  );

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}/g;
const TIMES = new Set([
  "timestamp",
  "next_snapshot_timestamp",
  "reported_at",
  "from",
  "to",
  "duration",
  "deployed_at",
  "lead_time_seconds",
  "last_reported_at",
  "last_modified_at",
  "last_changed_at",
  "evaluated_at",
  "created_at",
]);

/**
 * A body with "<id>" for the ids in its texts and "<time>" for times of the server's clock. Commit and start times are
 * known and stay.
 */
export function normalize(body: unknown): any {
  return JSON.parse(JSON.stringify(body), (key, value) => {
    if (typeof value === "string") return value.replace(ID, "<id>");
    return TIMES.has(key) && typeof value === "number" && value !== 0 && value !== COMMITTED_AT ? "<time>" : value;
  });
}
