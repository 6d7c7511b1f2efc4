// A served executable with an organization whose members play every role, and the words in which the runtime scenarios
// tell what happens there.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { clientOf, told } from "./client.ts";
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
  nobody: "key-that-nobody-has-issued-in-these-scenarios",
};
export type Role = keyof typeof KEYS;

const account = (role: Role, privilege: string = role): string =>
  `      - {name: ${role}, privilege: ${privilege}, api_keys: [{description: ci, key: "${KEYS[role]}"}]}\n`;
const APPLY = `
users:
  - name: ops
organizations:
  - name: acme
    members: [{user: ops, role: admin}]
    service_accounts:
${account("member")}${account("admin")}${account("snapshotter")}${account("reader")}
  - name: rivals
    members: [{user: ops, role: admin}]
    service_accounts:
${account("stranger", "admin")}
  - name: open
    public: true
    members: [{user: ops, role: admin}]
    service_accounts:
${account("publisher", "member")}
`;

export const API = "https://assay.example.com/api/v2";
export const PAGES = "https://assay.example.com/acme";
export const MEMBER = "member";

/** A fingerprint of its own for each label. */
export const fingerprint = (label: string): string => createHash("sha256").update(label).digest("hex");
/** A commit of its own for each label. */
export const commit = (label: string): string => createHash("sha1").update(label).digest("hex");
/** Author time of every commit. */
export const COMMITTED = 1_767_222_000;
/** When everything started that is reported. */
export const STARTED = 1_767_225_600;

export const schema = (rules: string): string =>
  `_schema: https://kosli.com/schemas/policy/environment/v1\nartifacts:\n${rules}`;
export const PROVENANCE = schema("  provenance:\n    required: true\n");
export const COMPLIANT_TRAIL = schema("  trail-compliance:\n    required: true\n");

/** A flow template: an artifact `app` with an attestation `scan`. */
export const SCANNED =
  "version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations:\n        - name: scan\n          type: generic\n";

type Build = { flow: string; trail: string; name: string; reference?: string; label?: string; repo?: string };
export type Place = Awaited<ReturnType<typeof openPlace>>;

/** Starts the executable on an empty directory; `close` ends it and removes the directory. */
export async function openPlace() {
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
  let server = await serve("--bootstrap", file);

  const as = (role: Role, dialect?: "cli" | "terraform" | "webhook"): Client =>
    clientOf(server.url, KEYS[role], dialect);
  const json = (method: Method, path: string, body?: unknown) => as(MEMBER).json(method, path, body);
  const read = (path: string): Promise<any> => told(json("GET", path), 200);
  const done = async (answering: ReturnType<typeof json>, status: number): Promise<void> =>
    void assert.is(await told(answering, status), "OK");
  const yaml = (part: string, content: string) => ({ part, name: `${part}.yml`, content });

  /** Ends the server with the signal, and starts one on the same data. */
  async function restart(signal: NodeJS.Signals): Promise<void> {
    assert.equal(
      await server.stop(signal),
      signal === "SIGKILL" ? { code: null, signal } : { code: 0, signal: null },
      server.output(),
    );
    server = await serve();
  }
  const snapshot = (environment: string, expression = "-1"): Promise<any> =>
    read(`/snapshots/acme/${environment}/${expression}`);

  return {
    as,
    json,
    read,
    snapshot,
    state: async (environment: string): Promise<unknown> => (await read(`/environments/acme/${environment}`)).state,
    /** How many snapshots there are, as `list snapshots` sees it. */
    count: async (environment: string): Promise<number> =>
      (await read(`/snapshots/acme/${environment}?interval=&page=1&per_page=1000&reverse=false`)).length,
    annotated: async (environment: string, expression = "-1"): Promise<unknown[]> =>
      shown(await snapshot(environment, expression)),
    restart,
    /** Must be answered with that status and this message, and with no other field. */
    async refused(method: Method, path: string, status: number, message: string, body?: unknown): Promise<void> {
      assert.equal(await told(json(method, path, body), status), { message }, `${method} ${path}`);
    },
    /** Must be answered with these field errors. */
    async invalid(method: Method, path: string, errors: Record<string, string>, body?: unknown): Promise<void> {
      assert.equal(
        await told(json(method, path, body), 400),
        { message: "Input payload validation failed", errors },
        `${method} ${path}`,
      );
    },
    flow: (name: string, template?: string): Promise<void> =>
      done(
        as(MEMBER).form(
          "PUT",
          "/flows/acme/template_file",
          "data_json",
          { name, description: "", visibility: "private" },
          template === undefined ? undefined : yaml("template_file", template),
        ),
        201,
      ),
    /** Reports an artifact of the commit of its label, which is its fingerprint's too. */
    build: ({ flow, trail, name, reference = "app", label = name, repo = "acme/shop" }: Build): Promise<void> => {
      const url = `https://github.com/${repo}`;
      const git_commit = commit(label);
      const commit_url = `${url}/commit/${git_commit}`;
      const git_commit_info = {
        sha1: git_commit,
        message: label,
        author: "Ada <ada@example.com>",
        timestamp: COMMITTED,
        branch: "main",
        url: commit_url,
      };
      const repo_info = { name: repo, id: repo, url, provider: "github" };
      return done(
        json("POST", `/artifacts/acme/${flow}`, {
          fingerprint: fingerprint(label),
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
    /** Attests to an artifact, or to the trail without a label. */
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
      const target = label === undefined ? {} : { artifact_fingerprint: fingerprint(label) };
      return done(
        as(MEMBER).form("POST", `/attestations/acme/${flow}/trail/${trail}/generic`, "data_json", {
          attestation_name: name,
          ...target,
          is_compliant,
          user_data: {},
        }),
        201,
      );
    },
    policy: async (name: string, content: string, status: 200 | 201 = 201): Promise<any> =>
      told(
        as(MEMBER).form(
          "PUT",
          "/policies/acme",
          "payload",
          { name, description: "", type: "env", comment: "" },
          yaml("policy_file", content),
        ),
        status,
      ),
    environment: (name: string, type: string, fields: Json = {}): Promise<void> =>
      done(json("PUT", "/environments/acme", { name, type, description: "", ...fields }), 201),
    /** Reports items of a type. */
    report: (name: string, type: string, artifacts: readonly Json[], status: 200 | 201): Promise<void> =>
      done(json("PUT", `/environments/acme/${name}/report/${type}`, { artifacts }), status),
    /** Reports what runs on a server: names, each with the label of its fingerprint; the empty one for none. */
    runs: (name: string, labels: Record<string, string>, status: 200 | 201, started = STARTED): Promise<void> =>
      done(json("PUT", `/environments/acme/${name}/report/server`, { artifacts: items(labels, started) }), status),
    /**
     * Asks again and again until it is so, or until the job queue has had all the time it can need: then the test finds
     * it is not.
     */
    async until(so: () => Promise<boolean>): Promise<void> {
      const deadline = Date.now() + 20_000;
      while (!(await so()) && Date.now() < deadline);
    },
    archived: (path: string): Promise<void> => done(json("PUT", `${path}/archive`, null), 200),
    ok: (method: Method, path: string, body?: unknown): Promise<void> => done(json(method, path, body), 200),
    /**
     * Reads these paths now and, after each of the signals, again from a server started on the same data: everything
     * must read the same.
     */
    async sameAfter(signals: readonly NodeJS.Signals[], paths: readonly string[]): Promise<void> {
      const readings = new Map<string, unknown>();
      for (const path of paths) readings.set(path, settled(await read(path)));
      for (const signal of signals) {
        await restart(signal);
        for (const [path, before] of readings) assert.equal(settled(await read(path)), before, path);
      }
    },
    async close(): Promise<void> {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** What a snapshot says of its artifacts in short: name, how it came to be so, verdict. */
export const shown = ({ artifacts }: Json): unknown[] =>
  artifacts.map(({ name, annotation, compliant }: Json) => [name, annotation.type, compliant]);

/** What events tell, in short. */
export const happened = (events: Json[]): unknown[] =>
  events.map(({ environment_name, snapshot_index, artifact_name, type, description, pipeline }) => [
    `${environment_name}#${snapshot_index}`,
    artifact_name,
    type,
    description,
    pipeline,
  ]);

/** What runs on a server as items of a report. */
export const items = (labels: Record<string, string>, started = STARTED): Json[] =>
  Object.entries(labels).map(([name, label]) => ({
    digests: { [name]: label === "" ? "" : fingerprint(label) },
    creationTimestamp: started,
  }));

/** An answer without what the clock alone changes: how long the latest snapshot has been in force. */
const settled = (body: unknown): unknown =>
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
 * An answer with "<id>" for the ids in its texts and "<time>" for what the server's clock gave; commits and starts are
 * known and stay.
 */
export function normal(body: unknown): any {
  return JSON.parse(JSON.stringify(body), (key, value) => {
    if (typeof value === "string") return value.replace(ID, "<id>");
    return TIMES.has(key) && typeof value === "number" && value !== 0 && value !== COMMITTED ? "<time>" : value;
  });
}
