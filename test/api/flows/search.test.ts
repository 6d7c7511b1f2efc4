/** Search by fingerprint and commit (semantics 8.2, wire-contract 21, messages 4). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/flows/search");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;

const search = (at: At, value: string): Promise<Answer> =>
  server.call("GET", `/search/${at.org}/sha/${value}`, { key: at.key });
const both = ({ status, body }: Answer) => [status, body];
const none = (value: string) => [404, { message: `No matches for '${value}'.` }];
const fingerprint = (prefix: string, end = "0"): string => prefix.padEnd(64, end);
const commit = (prefix: string, end = "0"): string => prefix.padEnd(40, end);

async function world() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  return { at, flow, ...runningIn(server) };
}
const resolved = (type: string, full_match: string, fingerprints: string[], commits: string[]) => ({
  type,
  full_match,
  fingerprints: { type: "fingerprint", count: fingerprints.length, matches: fingerprints },
  commits: { type: "commit", count: commits.length, matches: commits },
});

test("finds an artifact by whole fingerprint, prefix or commit, case-insensitively", async () => {
  const { at, flow, environment, report, times } = await world();
  const [print, sha] = [fingerprint("abc123"), commit("def456")];
  await server.given.artifact(at, {
    flow,
    trail: "t",
    name: "app",
    filename: "app:1",
    fingerprint: print,
    commit: sha,
    build_url: "https://ci.test/9",
    commit_url: "https://git.test/9",
  });
  await server.given.attestation(at, { flow, trail: "t", name: "scan", fingerprint: print });
  const [prod, stage] = [environment(at), environment(at)];
  report(at, stage, [running("app", print)]);
  report(at, stage, [running("other", "9".repeat(64))]);
  report(at, prod, [running("app", print)]);
  const { body: artifact } = await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${print}`, {
    key: at.key,
  });
  const [started] = times(at, prod);
  const [entered, left] = times(at, stage);
  const events = [
    "app reported",
    "scan evidence received",
    `started running in ${stage}#1`,
    `no longer running in ${stage}#2`,
    `started running in ${prod}#1`,
  ];
  const found = {
    fingerprint: print,
    name: "app:1",
    has_provenance: true,
    git_commit: sha,
    flow,
    pipeline: flow,
    trail: "t",
    template_reference_name: "app",
    build_url: "https://ci.test/9",
    commit_url: "https://git.test/9",
    compliance_state: "COMPLIANT",
    running_in: [`${prod}#1`],
    exited_from: [`${stage}#2`],
    html_url: artifact.html_url,
    api_url: artifact.api_url,
    history: artifact.history,
  };
  assert.equal(
    artifact.history.map(({ event }: Json) => event),
    events,
  );
  assert.equal(
    artifact.history.slice(2).map(({ timestamp }: Json) => timestamp),
    [entered, left, started],
  );
  for (const value of [print, print.slice(0, 5), print.slice(0, 63), print.toUpperCase(), "aBc12"])
    assert.equal(
      both(await search(at, value)),
      [200, { resolved_to: resolved("fingerprint", print, [print], []), artifacts: [found] }],
      value,
    );
  for (const value of [sha, sha.slice(0, 5), sha.slice(0, 39), "DEF45"])
    assert.equal(
      both(await search(at, value)),
      [200, { resolved_to: resolved("commit", sha, [], [sha]), artifacts: [found] }],
      value,
    );
});

test("finds an artifact that ran unreported, with empty provenance", async () => {
  const { at, environment, report, times } = await world();
  const print = fingerprint("5eed5");
  const [prod, stage] = [environment(at), environment(at)];
  report(at, prod, [running("sidecar", print)]);
  report(at, stage, [running("sidecar:2", print)]);
  report(at, stage, []);
  const history = [
    { event: `started running in ${prod}#1`, timestamp: times(at, prod)[0] },
    { event: `started running in ${stage}#1`, timestamp: times(at, stage)[0] },
    { event: `no longer running in ${stage}#2`, timestamp: times(at, stage)[1] },
  ];
  const artifact = {
    fingerprint: print,
    name: "sidecar:2",
    has_provenance: false,
    git_commit: "",
    flow: "",
    pipeline: "",
    trail: "",
    template_reference_name: "",
    build_url: "",
    commit_url: "",
    compliance_state: "",
    running_in: [`${prod}#1`],
    exited_from: [`${stage}#2`],
    html_url: "",
    api_url: "",
    history,
  };
  for (const value of [print, "5eed5"])
    assert.equal(both(await search(at, value)), [
      200,
      { resolved_to: resolved("fingerprint", print, [print], []), artifacts: [artifact] },
    ]);
});

test("trail and reference name are empty for an artifact without them", async () => {
  const { at, flow } = await world();
  const print = await server.given.artifact(at, { flow, trail: null, fingerprint: fingerprint("1e9ac") });
  const [{ trail, template_reference_name, flow: shown, compliance_state }] = (await search(at, print)).body.artifacts;
  assert.equal(
    { trail, template_reference_name, shown, compliance_state },
    { trail: "", template_reference_name: "", shown: flow, compliance_state: "COMPLIANT" },
  );
});

test("shows the latest record of each flow, newest first; a commit has all its artifacts", async () => {
  const { at, flow } = await world();
  const release = await server.given.flow(at);
  const [one, two, sha] = [fingerprint("11111a"), fingerprint("22222b"), commit("abcdef")];
  await server.given.artifact(at, { flow, trail: "t1", fingerprint: one, commit: sha });
  await server.given.artifact(at, { flow: release, trail: "r", fingerprint: one, commit: commit("fedcba") });
  await server.given.artifact(at, { flow, trail: "t2", fingerprint: one, commit: sha });
  await server.given.artifact(at, { flow, trail: "t2", fingerprint: two, commit: sha });
  const shown = async (value: string) => {
    const { body } = await search(at, value);
    return body.artifacts.map((artifact: Json) => [
      artifact["fingerprint"],
      artifact["flow"],
      artifact["trail"],
      artifact["git_commit"],
    ]);
  };
  assert.equal(await shown(one), [
    [one, flow, "t2", sha],
    [one, release, "r", commit("fedcba")],
  ]);
  assert.equal(await shown(sha), [
    [two, flow, "t2", sha],
    [one, flow, "t2", sha],
  ]);
});

test("lists all fingerprints and commits that share a prefix", async () => {
  const { at, flow, environment, report } = await world();
  const [a, b, ran, sha] = [fingerprint("beef01"), fingerprint("beef02"), fingerprint("beef03"), commit("beef04")];
  await server.given.artifact(at, { flow, trail: "t", fingerprint: b });
  await server.given.artifact(at, { flow, trail: "t", fingerprint: a, commit: sha });
  report(at, environment(at), [running("x", ran)]);
  const { status, body } = await search(at, "beef0");
  assert.equal(
    { status, resolved_to: body.resolved_to },
    { status: 200, resolved_to: resolved("multiple", "", [a, b, ran], [sha]) },
  );
  assert.equal(
    body.artifacts.map((artifact: Json) => [artifact["fingerprint"], artifact["has_provenance"]]),
    [
      [a, true],
      [b, true],
      [ran, false],
    ],
  );
  assert.equal((await search(at, "beef01")).body.resolved_to, resolved("fingerprint", a, [a], []));
  assert.equal((await search(at, "beef04")).body.resolved_to, resolved("commit", sha, [], [sha]));
});

test("lists ten matches, and refuses eleven", async () => {
  const { at, flow } = await world();
  for (let n = 0; n < 10; n++)
    await server.given.artifact(at, {
      flow,
      trail: "t",
      fingerprint: fingerprint(`cafe0${n}`),
      commit: commit("0ff1ce"),
    });
  const { status, body } = await search(at, "cafe0");
  assert.equal(
    {
      status,
      type: body.resolved_to.type,
      count: body.resolved_to.fingerprints.count,
      "artifacts.length": body.artifacts.length,
    },
    { status: 200, type: "multiple", count: 10, "artifacts.length": 10 },
  );
  await server.given.artifact(at, { flow, trail: "t", fingerprint: "1".repeat(64), commit: commit("cafe0a") });
  assert.equal(both(await search(at, "cafe0")), none("cafe0"));
  assert.is((await search(at, "cafe0a")).status, 200);
});

test("shows at most the fifty newest artifacts of a commit", async () => {
  const { at, flow } = await world();
  const sha = commit("50505");
  const prints = Array.from({ length: 51 }, (_, n) => fingerprint(`e${n.toString(16).padStart(6, "0")}`, "e"));
  for (const print of prints) await server.given.artifact(at, { flow, trail: "t", fingerprint: print, commit: sha });
  const { body } = await search(at, "50505");
  assert.equal(body.resolved_to, resolved("commit", sha, [], [sha]));
  assert.equal(
    body.artifacts.map((artifact: Json) => artifact["fingerprint"]),
    prints.slice(1).reverse(),
  );
});

test("no match is 404 with a fixed message, and an invalid prefix is refused", async () => {
  const { at, flow } = await world();
  const other = server.given.org();
  const print = await server.given.artifact(at, { flow, trail: "t", fingerprint: fingerprint("abcde") });
  for (const value of ["12345", "ABCDF", "f".repeat(40), "f".repeat(64), `${print}0`, `${print.slice(0, 40)}1`])
    assert.equal(both(await search(at, value)), none(value));
  assert.equal(both(await search(other, print)), none(print));
  for (const value of ["abcd", "a", "abcdg", "abcde-", "HEAD~1", "app:1"])
    assert.equal(
      both(await search(at, encodeURIComponent(value))),
      [
        400,
        {
          message: "Input payload validation failed",
          errors: { search_value: `String should match pattern '^[a-fA-F0-9]{5,}$' [input: ${value}]` },
        },
      ],
      value,
    );
});

test("finds a damaged record as well", async () => {
  const { at, flow, environment, report } = await world();
  const print = await server.given.artifact(at, { flow, trail: "t", fingerprint: fingerprint("dada1") });
  report(at, environment(at), [running("x", print)]);
  server.db
    .prepare(
      "UPDATE artifacts SET attestations_json = '{', reasons_json = '{', user_data_json = '{', " +
        "git_commit_info_json = '{' WHERE fingerprint = ?",
    )
    .run(print);
  server.db.prepare("UPDATE snapshot_artifacts SET instances_json = '{' WHERE fingerprint = ?").run(print);
  const { status, body } = await search(at, "dada1");
  assert.equal(
    { status, "artifacts.length": body.artifacts.length, fingerprint: body.artifacts[0].fingerprint },
    { status: 200, "artifacts.length": 1, fingerprint: print },
  );
});

test.run();
