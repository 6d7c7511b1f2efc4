/**
 * The pages of the guide for people who write policies, templates, types, actions and Rego: every block is an example
 * that the suite follows. The info string of a fence says what it is (`test/README.md`), and a block without one fails.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as assert from "uvu/assert";
import { KINDS as KINDS_OF_ATTESTATIONS } from "../../src/domain/attestation/kinds.ts";
import type { RegoEngine } from "../../src/rego/types.ts";
import { openRego } from "../../src/server/worker-threads.ts";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";
import { ROOT } from "../rules/source.ts";
import { openClusters } from "./clusters.ts";
import { findVerdict, readLines, readTrail, reportArtifact, reportTrail, success } from "./facts.ts";
import type { At, Line } from "./facts.ts";
import type { Sent } from "../api/notifications/receivers.ts";
import { openEvents } from "./messages.ts";
import type { Events } from "./messages.ts";
import { findUnprinted } from "./instructions.ts";
import { readBlocks } from "./page.ts";
import type { Block } from "./page.ts";

/** The pages whose every block is followed. */
export const WRITING_PAGES = [
  "policies",
  "policy-expressions",
  "policy-recipes",
  "templates",
  "attestation-types",
  "sboms",
  "actions",
  "kubernetes-jobs",
  "rego",
  "rego-decisions",
  "rego-recipes",
] as const;

/** What a block is, and the languages that it may be written in. */
const KINDS = {
  policy: "yaml",
  template: "yaml",
  type: "json",
  schema: "json",
  action: "json",
  payload: "json",
  rule: "jq",
  verdicts: "text",
  reports: "text",
  expressions: "text",
  messages: "text",
  report: "json",
  clusters: "text",
  mail: "text",
  commands: "sh",
  output: "output",
  module: "rego",
  document: "json",
  evaluations: "text",
  prose: "text",
} as const;
type Kind = keyof typeof KINDS;

/** `refused` is a part of the refusal of a block that is not accepted; `file` the name under which it is saved. */
export type Example = { kind: Kind; file: string | null; refused: string | null; text: string; line: number };

/** @throws Error for an info string without a meaning */
export function readExample({ info, text, line }: Block): Example {
  const { 1: words = "", 2: refused = null } = /^(.*?)(?: refused: "(.+)")?$/.exec(info ?? "") ?? [];
  const [language = "", ...rest] = words.split(" ");
  const file = rest.flatMap((word) => /^file=([\w.-]+(?:\/[\w.-]+)*)$/.exec(word)?.[1] ?? [])[0] ?? null;
  const named = rest.filter((word) => !word.startsWith("file="));
  const bare: Readonly<Record<string, Kind>> = {
    sh: "commands",
    output: "output",
    text: "prose",
    jq: "rule",
    rego: "module",
    json: "document",
  };
  const kind = named.length === 0 ? bare[language] : (named.join(" ") as Kind);
  if (kind === undefined || KINDS[kind] !== language)
    throw new Error(`line ${line}: a block with the info string '${info ?? ""}' says not what it is`);
  return { kind, file, refused, text, line };
}

export const readExamples = (topic: string): Example[] => readBlocks(topic).map(readExample);

/** The name of what an example defines, in the organizations that its verdicts are about. */
const NAMES = { policy: "production", template: "payments" } as const;

/** The only control of every organization. */
const CONTROL = "C-7";

/** A page that is being followed: what the blocks so far defined. */
type Page = {
  readonly server: TestServer;
  /** The organization of the commands, as they know it. */
  readonly at: At;
  readonly directory: string;
  /** Definitions of types, by their order, with the schema that stood before. */
  readonly types: { definition: string; schema: string | null }[];
  schema: string | null;
  /** What the verdicts that follow are about. */
  subject: { kind: "policy" | "template" | "type"; text: string } | null;
  printed: string;
  /** The latest policy in Rego, by its path. */
  module: Readonly<Record<string, string>>;
  readonly rego: RegoEngine;
  /** What happens in the organization of the commands; opened by the first action. */
  events: Events | null;
  /** The latest messages. */
  sent: Sent[];
};

/** The steps of a page, one for each block, named by its line. Close it afterwards. */
export const openPage = (topic: string) => openExamples(topic, readExamples(topic));

export async function openExamples(
  topic: string,
  examples: readonly Example[],
): Promise<{
  steps: { name: string; runsPrograms: boolean; follow: () => Promise<void> }[];
  close: () => Promise<void>;
}> {
  const directory = mkdtempSync(join(tmpdir(), "assay-page-"));
  const server = await startServer({ directory: join(directory, "data") });
  const work = join(directory, "work");
  const programs = join(directory, "bin");
  mkdirSync(work);
  mkdirSync(programs);
  symlinkSync(join(ROOT, "dist", "assay"), join(programs, "assay"));
  const at = server.given.org({ name: "acme" });
  await server.given.control(at, { identifier: CONTROL });
  const page: Page = {
    server,
    at,
    directory,
    types: [],
    schema: null,
    subject: null,
    printed: "",
    module: {},
    rego: openRego(),
    events: null,
    sent: [],
  };
  return {
    steps: examples.map((example) => ({
      name: `${topic}, line ${example.line}: ${example.kind}${example.refused === null ? "" : ", refused"}`,
      runsPrograms: example.kind === "commands" || example.kind === "output",
      follow: async () => {
        if (example.file !== null) {
          mkdirSync(dirname(join(work, example.file)), { recursive: true });
          writeFileSync(join(work, example.file), example.text);
        }
        await FOLLOW[example.kind](page, example);
      },
    })),
    close: async () => {
      await page.rego.close();
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const FOLLOW: Record<Kind, (page: Page, example: Example) => Promise<void>> = {
  async policy(page, { text, refused }) {
    await expectAnswer(putPolicy(page.server, await freshOrg(page), text), refused);
    if (refused === null) page.subject = { kind: "policy", text };
  },
  async template(page, { text, refused }) {
    await expectAnswer(putTemplate(page.server, page.server.given.org(), text), refused);
    if (refused === null) page.subject = { kind: "template", text };
  },
  async schema(page, { text }) {
    page.schema = text;
  },
  async type(page, { text, refused }) {
    const type = { definition: text, schema: page.schema };
    page.schema = null;
    await expectAnswer(putType(page.server, page.server.given.org(), type), refused);
    if (refused !== null) return;
    page.types.push(type);
    page.subject = { kind: "type", text };
  },
  async action(page, { text, refused }) {
    page.events ??= await openEvents(page.server, page.at);
    await expectAnswer(page.events.put(text), refused);
  },
  async messages(page, { text }) {
    for (const line of text.trimEnd().split("\n")) await expectMessages(page, line);
  },
  async report({ server, at }, { text, refused }) {
    const environment = await server.given.environment(at);
    const path = `/environments/${at.org}/${environment}/report/K8S`;
    await expectAnswer(server.call("PUT", path, { key: at.key, body: JSON.parse(text) as unknown }), refused);
  },
  async clusters(page, { text }) {
    const at = await freshOrg(page);
    const { server, subject } = page;
    if (subject) await success(putPolicy(server, at, subject.text));
    const clusters = openClusters(server, at, subject && NAMES.policy);
    for (const line of text.trimEnd().split("\n")) {
      const [what = ""] = line.split(" => ", 1);
      assert.is(`${what} => ${await clusters.happens(what.trim())}`, line);
    }
  },
  async payload(page, { text }) {
    const shown = JSON.parse(localized(text)) as { event_type: string; timestamp: string };
    const [message] = page.sent.filter(
      ({ type, body }) => type === "WEBHOOK" && body["event_type"] === shown.event_type,
    );
    assert.equal({ ...shown, timestamp: message?.body["timestamp"] }, message?.body);
  },
  async mail(page, { text }) {
    assert.is(page.sent.find(({ type }) => type === "EMAIL")?.body["text"], localized(text));
  },
  async rule(page, { text }) {
    for (const line of readLines(text)) await expectRule(page, line);
  },
  async verdicts(page, { text }) {
    for (const line of readLines(text)) await expectVerdict(page, line);
  },
  async reports(page, { text }) {
    for (const line of readLines(text)) await expectReport(page, line);
  },
  async expressions(page, { text }) {
    const [facts = "", ...lines] = text.trimEnd().split("\n");
    await expectValues(page, facts, readLines(lines.join("\n")));
  },
  async commands(page, { text }) {
    page.printed = await run(page, text);
  },
  async output(page, { text }) {
    assert.is(findUnprinted(text, page.printed), null, `printed was:\n${page.printed}`);
  },
  async module(page, { text, refused, file }) {
    page.module = { [file ?? "policy.rego"]: text };
    if (file?.endsWith("_test.rego")) return;
    const checked = await page.rego.check(page.module);
    if (refused === null) assert.ok(checked.ok, JSON.stringify(checked));
    else assert.ok(!checked.ok && checked.error.message.includes(refused), JSON.stringify(checked));
  },
  async document(_page, { text }) {
    JSON.parse(text);
  },
  async evaluations(page, { text }) {
    for (const line of readLines(text)) await expectEvaluation(page, line);
  },
  async prose() {},
};

/** `{"input": ..., "params": ..., "time": ...} => ALLOWED`, `DENIED: PART` or, of a failure, `KIND: PART`. */
async function expectEvaluation({ rego, module }: Page, { facts, result, reason }: Line): Promise<void> {
  const { input, params = {}, time = "2026-11-26T08:00:00Z" } = JSON.parse(facts);
  const outcome = await rego.evaluate(module, {
    input: Buffer.from(JSON.stringify(input)),
    params: JSON.stringify(params),
    timeNs: BigInt(Date.parse(time)) * 1_000_000n,
    seed: "",
  });
  const [said, reasons] = outcome.ok
    ? [outcome.value.allow ? "ALLOWED" : "DENIED", [...outcome.value.violations, outcome.value.outputs]]
    : [outcome.error.kind, [outcome.error.message]];
  assert.is(said, result, `${facts}: ${reasons.join("\n")}`);
  if (reason !== null)
    assert.ok(
      reasons.some((one) => one.includes(reason)),
      `${facts}: ${reasons.join("\n")}`,
    );
}

/** A new organization with the controls and types that the page has defined so far. */
async function freshOrg({ server, types }: Page): Promise<At> {
  const at = server.given.org();
  await server.given.control(at, { identifier: CONTROL });
  for (const type of types) await success(putType(server, at, type));
  return at;
}

const putPolicy = (server: TestServer, { org, key }: At, content: string): Promise<Answer> =>
  server.call("PUT", `/policies/${org}`, {
    key,
    form: { field: "payload", json: { name: NAMES.policy }, file: { name: "policy_file", filename: "p.yml", content } },
  });

const putTemplate = (server: TestServer, { org, key }: At, content: string): Promise<Answer> =>
  server.call("PUT", `/flows/${org}/template_file`, {
    key,
    form: {
      json: { name: NAMES.template, description: "" },
      file: { name: "template_file", filename: "template.yml", content },
    },
  });

const putType = (server: TestServer, { org, key }: At, type: Page["types"][number]): Promise<Answer> =>
  server.call("POST", `/custom-attestation-types/${org}`, {
    key,
    form: {
      json: type.definition,
      ...(type.schema === null ? {} : { file: { name: "type_schema", filename: "schema.json", content: type.schema } }),
    },
  });

/** The answer is a success, or refuses with this text in one of its lines. */
async function expectAnswer(
  answering: Promise<Pick<Answer, "status" | "text" | "body">>,
  refused: string | null,
): Promise<void> {
  const { status, text, body } = await answering;
  if (refused === null) assert.ok(status === 200 || status === 201, text);
  else {
    const said = [body.message, ...Object.entries<string>(body.errors ?? {}).flat()].join("\n");
    assert.is(status, 400, text);
    assert.ok(said.includes(refused), `refused with:\n${said}`);
  }
}

async function expectVerdict(page: Page, { facts, result, reason }: Line): Promise<void> {
  const { subject } = page;
  if (!subject) throw new Error("no block before defines what the verdicts are about");
  const found = await FIND[subject.kind](page, subject.text, facts);
  assert.is(found.result, result, `${facts}: ${found.reasons.join("\n")}`);
  if (reason !== null)
    assert.ok(
      found.reasons.some((one) => one.includes(reason)),
      `${facts}: '${reason}' is not among the reasons:\n${found.reasons.join("\n")}`,
    );
}

type Found = { result: string; reasons: string[] };

const FIND: Record<"policy" | "template" | "type", (page: Page, text: string, facts: string) => Promise<Found>> = {
  async policy(page, text, facts) {
    const at = await freshOrg(page);
    await success(putPolicy(page.server, at, text));
    const artifact = await reportArtifact(page.server, at, facts);
    return findVerdict(page.server, at, { policy: NAMES.policy, artifact });
  },
  async template(page, text, line) {
    const at = await freshOrg(page);
    await success(putTemplate(page.server, at, text));
    const flow = NAMES.template;
    const trail = await reportTrail(page.server, at, { flow, line });
    return readTrail(page.server, at, { flow, trail });
  },
  async type(page, _text, data) {
    const at = await freshOrg(page);
    const { definition, schema } = page.types.at(-1) as Page["types"][number];
    const { name, description: _, ...parts } = JSON.parse(definition);
    const { server } = page;
    const body = { ...parts, type_schema: schema, attestation_data: data };
    const tried = await server.call("POST", `/custom-attestation-types/${at.org}/try`, { key: at.key, body });
    const flow = await server.given.flow(at);
    const json = { attestation_name: "a", type_name: name, attestation_data: JSON.parse(data) };
    const path = `/attestations/${at.org}/${flow}/trail/t/custom`;
    const reported = await server.call("POST", path, { key: at.key, form: { json } });
    const reasons = tried.body.rules.map((rule: any) => `${rule.rule} ${rule.reason ?? "holds"}`);
    const groups: { name: string; value: unknown; error: string | null }[][] = tried.body.summary?.groups ?? [];
    const rows = groups.flat().map((row) => `${row.name}: ${row.error ?? formatValue(row.value)}`);
    if (reported.status === 400)
      return { result: "refused", reasons: [tried.body.mismatch, ...Object.values<string>(reported.body.errors)] };
    assert.is(reported.status, 201, reported.text);
    const { body: records } = await server.call("GET", `/attestations/${at.org}/${flow}/trail/t/a`, { key: at.key });
    assert.is(records[0].is_compliant, tried.body.is_compliant);
    return { result: records[0].is_compliant ? "COMPLIANT" : "NON-COMPLIANT", reasons: [...reasons, ...rows] };
  },
};

const formatValue = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Reports an attestation of a built-in type: `TYPE JSON => COMPLIANT`, `NON-COMPLIANT` or `refused: PART`. */
async function expectReport({ server }: Page, { facts, result, reason }: Line): Promise<void> {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const type = facts.slice(0, facts.indexOf(" "));
  const json = { attestation_name: "a", ...JSON.parse(facts.slice(type.length)) };
  const segment = KINDS_OF_ATTESTATIONS.find(({ word }) => word === type)?.segment ?? type;
  const path = `/attestations/${at.org}/${flow}/trail/t/${segment}`;
  const reported = await server.call("POST", path, { key: at.key, form: { json } });
  const { body: records } = await server.call("GET", `/attestations/${at.org}/${flow}/trail/t/a`, { key: at.key });
  const refused = reported.status === 400;
  assert.is(refused ? "refused" : records[0]?.is_compliant ? "COMPLIANT" : "NON-COMPLIANT", result, reported.text);
  if (reason !== null) assert.ok(reported.text.includes(reason), reported.text);
}

/** Evaluates a rule on data: `RULE # DATA => true`; the result is `true`, or `false` with the reason against it. */
async function expectRule({ server }: Page, { facts, result, reason }: Line): Promise<void> {
  const at = server.given.org();
  const comment = facts.lastIndexOf(" # ");
  const body = {
    evaluator: { content_type: "jq", rules: [facts.slice(0, comment).trim()] },
    attestation_data: facts.slice(comment + 3),
  };
  const tried = await server.call("POST", `/custom-attestation-types/${at.org}/try`, { key: at.key, body });
  assert.is(tried.status, 200, tried.text);
  assert.is(String(tried.body.is_compliant), result, `${facts}: ${tried.text}`);
  if (reason !== null) assert.ok(tried.body.rules[0].reason.includes(reason), tried.text);
}

/** `WHAT HAPPENS => EVENT EVENT`: the types of the events that webhooks are sent, or `none`. */
async function expectMessages(page: Page, line: string): Promise<void> {
  const [what = "", events = ""] = line.split(" => ");
  page.sent = (await page.events?.happens(what)) ?? [];
  const types = page.sent.flatMap(({ type, body }) => (type === "WEBHOOK" ? [String(body["event_type"])] : []));
  assert.is(`${what} => ${types.join(" ") || "none"}`, `${what} => ${events}`);
}

/** Addresses as the test server knows them: pages show that of the examples. */
const localized = (text: string): string => text.replaceAll("https://assay.example.com", "http://assay.test");

/** Evaluates each expression as the condition of a rule that nothing satisfies. */
async function expectValues({ server }: Page, facts: string, lines: readonly Line[]): Promise<void> {
  const at = server.given.org();
  const rules = lines.map((line, index) => `    - {type: generic, name: n${index}, if: ${JSON.stringify(line.facts)}}`);
  const text = `_schema: /v1\nartifacts:\n  attestations:\n${rules.join("\n")}\n`;
  await expectAnswer(putPolicy(server, at, text), null);
  const artifact = await reportArtifact(server, at, facts);
  const environment = await server.given.environment(at, { type: "server", policies: [NAMES.policy] });
  const artifacts = [{ digests: { [artifact.name]: artifact.fingerprint }, creationTimestamp: 1_700_000_000 }];
  const path = `/environments/${at.org}/${environment}/report/server`;
  await success(server.call("PUT", path, { key: at.key, body: { artifacts } }));
  const { body } = await server.call("GET", `/snapshots/${at.org}/${environment}/-1`, { key: at.key });
  const evaluations = body.artifacts[0].policy_decisions[0].rule_evaluations.slice(2);
  const values = evaluations.map(({ ignored, resolutions: [{ context }] }: any) =>
    context.evaluation_error === undefined ? String(!ignored) : "error",
  );
  assert.equal(
    lines.map((line, index) => `${line.facts} => ${values[index]}`),
    lines.map((line) => `${line.facts} => ${line.result}`),
  );
  for (const [index, { reason }] of lines.entries())
    if (reason !== null) assert.ok(evaluations[index].resolutions[0].context.evaluation_error.includes(reason), reason);
}

/** Runs the commands of a block in a shell that stops at the first failing one; returns what they print. */
const run = ({ server, at, directory }: Page, commands: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const env = {
      PATH: `${join(directory, "bin")}:${process.env["PATH"] ?? ""}`,
      HOST: server.url,
      ORG: at.org,
      KEY: at.key,
      ASSAY_DATA: join(directory, "data"),
    };
    execFile("sh", ["-ec", `exec 2>&1\n${commands}`], { cwd: join(directory, "work"), env }, (error, stdout) =>
      error ? reject(new Error(`${error.message}\n${stdout}`)) : resolve(stdout),
    );
  });
