/** The preview of another template: the next trails are what it says, its refusals, and that nothing is stored. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ADMIN, ORG } from "../../../src/demo/acme/people.ts";
import { MAX_PREVIEWED_CHARS } from "../../../src/api/uploads.ts";
import { MAX_TEMPLATE_ENTRIES } from "../../../src/domain/flow-template/template.ts";
import { MAX_NEXT_TRAILS } from "../../../src/store/flows/template-previews.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { startStoryServer } from "../../story/server.ts";
import { withoutTrace } from "../administration.ts";

const test = suite("api/policies/change-preview-template");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Change = { flow_name: string; template_file: string };

const templateOf = (...names: string[]): string =>
  `version: 1\ntrail:\n  attestations:\n${names.map((name) => `    - {name: ${name}, type: generic}\n`).join("")}`;
const EMPTY = "version: 1\n";

const ask = (at: At, edit_template: unknown) =>
  server.call("POST", `/previews/${at.org}`, { key: at.key, body: { edit_template } });
const preview = async (at: At, edit_template: Change) => {
  const answer = await ask(at, edit_template);
  assert.is(answer.status, 200, answer.text);
  return answer.body;
};

const putTemplate = ({ call }: Pick<TestServer, "call">, { org, key }: At, { flow_name, template_file }: Change) =>
  call("PUT", `/flows/${org}/template_file`, {
    key,
    form: {
      json: { name: flow_name, description: "" },
      file: { name: "template_file", filename: "template.yml", content: template_file },
    },
  });

/** A flow that expects `tests`, with trails, oldest first: `named` have only what they are named after. */
async function flowWith(...named: string[][]) {
  const at = server.given.org();
  const flow = await server.given.flow(at, { name: "backend", template: templateOf("tests") });
  for (const names of named) {
    const trail = await server.given.trail(at, { flow, name: names.join("-") || "nothing" });
    for (const name of names) await server.given.attestation(at, { flow, trail, name });
  }
  return { at, flow };
}

const NOTHING = { unchanged: 0, would_fail: 0, would_pass: 0, unknown: 0, flips: [], unknown_trails: [] };

test("each trail that would turn, failing ones first, with its verdicts and causes", async () => {
  const { at, flow } = await flowWith(["tests", "scan"], ["tests"], ["scan"], []);
  const answer = await preview(at, { flow_name: flow, template_file: templateOf("scan", "review-3") });
  assert.equal(answer, {
    trail: null,
    next_trails: {
      flow,
      trails: 4,
      own_template: 0,
      left: 0,
      unchanged: 2,
      would_fail: 2,
      would_pass: 0,
      unknown: 0,
      flips: [
        {
          trail: "tests",
          before: "COMPLIANT",
          after: "INCOMPLETE",
          causes: [
            { subject: "scan", text: "scan is missing" },
            { subject: "review-3", text: "review-3 is missing" },
          ],
          further_causes: 0,
        },
        {
          trail: "tests-scan",
          before: "COMPLIANT",
          after: "INCOMPLETE",
          causes: [{ subject: "review-3", text: "review-3 is missing" }],
          further_causes: 0,
        },
      ],
      unknown_trails: [],
    },
    environments: [],
    logical_environments: [],
    stopped: null,
  });
  const other = await preview(at, { flow_name: flow, template_file: templateOf("scan") });
  const turn = { causes: [], further_causes: 0 };
  assert.equal(other.next_trails, {
    ...answer.next_trails,
    would_fail: 1,
    would_pass: 1,
    flips: [
      { ...answer.next_trails.flips[0], causes: [{ subject: "scan", text: "scan is missing" }] },
      { trail: "scan", before: "INCOMPLETE", after: "COMPLIANT", ...turn },
    ],
  });
  assert.equal((await preview(at, { flow_name: flow, template_file: templateOf("tests") })).next_trails, {
    ...NOTHING,
    flow,
    trails: 4,
    own_template: 0,
    left: 0,
    unchanged: 4,
  });
  await withoutTrace(server, () => preview(at, { flow_name: flow, template_file: templateOf("scan") }));
});

test("trails are compared with the template of today, whichever they began with, and a failure stays one", async () => {
  const { at, flow } = await flowWith(["tests"]);
  const trail = await server.given.trail(at, { flow, name: "failing" });
  await server.given.attestation(at, { flow, trail, name: "tests", is_compliant: false });
  await putTemplate(server, at, { flow_name: flow, template_file: templateOf("tests", "review") });
  const { next_trails } = await preview(at, { flow_name: flow, template_file: templateOf("tests") });
  const { unchanged, would_pass, flips } = next_trails;
  assert.equal(
    { unchanged, would_pass, flips },
    {
      unchanged: 1,
      would_pass: 1,
      flips: [{ trail: "tests", before: "INCOMPLETE", after: "COMPLIANT", causes: [], further_causes: 0 }],
    },
  );
});

test("a flow without trails, trails with their own template, and more trails than are looked at", async () => {
  const { at, flow } = await flowWith();
  const template_file = templateOf("review");
  const next = async () => (await preview(at, { flow_name: flow, template_file })).next_trails;
  assert.equal(await next(), { ...NOTHING, flow, trails: 0, own_template: 0, left: 0 });
  for (let index = 0; index < 21; index++) await server.given.trail(at, { flow });
  await server.given.trail(at, { flow, name: "own", template: EMPTY });
  assert.equal(await next(), { ...NOTHING, flow, trails: 20, own_template: 1, left: 1, unchanged: 20 });
});

test("of many causes five are listed, and a trail that the template makes too large is said", async () => {
  const { at, flow } = await flowWith(["tests"]);
  const many = Array.from({ length: 7 }, (_, index) => `check-${index}`);
  const [flip] = (await preview(at, { flow_name: flow, template_file: templateOf(...many) })).next_trails.flips;
  assert.equal([flip.causes.length, flip.further_causes], [5, 2]);
  const trail = await server.given.trail(at, { flow, name: "large" });
  const half = MAX_TEMPLATE_ENTRIES / 2 - 2;
  const entries = Array.from({ length: half * 2 }, (_, index) => `        - {name: check-${index}, type: generic}\n`);
  const large = `version: 1\ntrail:\n  artifacts:\n    - name: server\n      attestations:\n${entries.join("")}`;
  for (let index = 0; index < 6; index++)
    await server.given.artifact(at, { flow, trail, name: `server-${index}`, template_reference_name: "server" });
  const { next_trails } = await preview(at, { flow_name: flow, template_file: large });
  assert.equal(
    [next_trails.unknown, next_trails.unknown_trails],
    [
      1,
      [
        {
          trail: "large",
          reason:
            "It cannot be evaluated: Trail 'large' and its artifacts would have more than 10000 attestations of " +
            "different names, expected or reported, which is the most that it may have. Report to another trail",
        },
      ],
    ],
  );
});

test("refuses unknown and archived flows, invalid and long texts, and strangers; readers may look", async () => {
  const { at, flow } = await flowWith();
  const template_file = templateOf("review");
  const refused = async (edit_template: unknown, as: At = at): Promise<unknown[]> => {
    const { status, body } = await ask(as, edit_template);
    return [status, body.errors ?? body.message];
  };
  const invalid = "version: 1\ntrail:\n  attestation: []\n";
  const stored = await putTemplate(server, at, { flow_name: flow, template_file: invalid });
  assert.match(stored.body.errors.template_file, /line 3, column 3/);
  await server.given.flow(at, { name: "old" });
  const archived = await server.call("PUT", `/flows/${at.org}/old/archive`, { key: at.key });
  assert.is(archived.status, 200);
  const [{ name: suffixed }] = server.db
    .prepare<[], { name: string }>("SELECT name FROM flows WHERE archived_name = 'old' ORDER BY id DESC")
    .all() as [{ name: string }];
  const stranger = { ...at, key: server.given.org().key };
  await withoutTrace(server, async () => {
    const unknown = (name: string) => [404, `Flow named '${name}' does not exist for organization '${at.org}'`];
    assert.equal(await refused({ flow_name: "nowhere", template_file }), unknown("nowhere"));
    assert.equal(await refused({ flow_name: suffixed, template_file }), [
      404,
      `Flow named '${suffixed}' has been archived for organization '${at.org}'`,
    ]);
    assert.equal(await refused({ flow_name: flow, template_file: invalid }), [400, stored.body.errors]);
    const [status, errors] = await refused({ flow_name: flow, template_file: "#".repeat(MAX_PREVIEWED_CHARS + 1) });
    assert.equal([status, Object.keys(errors as object)], [400, ["edit_template.template_file"]]);
    for (const wrong of [{}, { flow_name: flow }, { template_file }, { flow_name: flow, template_file: 1 }, null])
      assert.is((await refused(wrong))[0], 400, JSON.stringify(wrong));
    assert.is((await refused({ flow_name: flow, template_file }, stranger))[0], 403);
  });
  const reader = { ...at, key: server.given.user(at.org, "reader") };
  assert.is((await ask(reader, { flow_name: flow, template_file })).status, 200, "as every other change");
});

test("over the story: what a preview predicts is what trails are when they begin again", async () => {
  const told = await startStoryServer();
  try {
    const { call, db } = told.server;
    const at = { org: ORG, key: told.story.keys.get(ADMIN) ?? "" };
    const flows = db
      .prepare<[string], string>(
        `SELECT f.name FROM flows f JOIN organizations o ON o.id = f.organization_id
         WHERE o.name = ? AND f.archived_at IS NULL`,
      )
      .pluck()
      .all(ORG);
    const newest = db.prepare<[string], { name: string; state: string; own: 0 | 1 }>(
      `SELECT t.name, t.state, t.template_inherited = 0 AS own FROM trails t JOIN flows f ON f.id = t.flow_id
       WHERE f.name = ? ORDER BY t.id DESC`,
    );
    const statesOf = (flow: string) =>
      new Map(
        newest
          .all(flow)
          .filter(({ own }) => own === 0)
          .slice(0, MAX_NEXT_TRAILS)
          .map(({ name, state }) => [name, state]),
      );
    const turned = { fail: 0, pass: 0 };
    for (const flow_name of flows) {
      const begin = async () => {
        for (const name of statesOf(flow_name).keys()) {
          const answer = await call("PUT", `/trails/${ORG}/${flow_name}`, { key: at.key, form: { json: { name } } });
          assert.is(answer.status, 200, answer.text);
        }
      };
      const { template } = (await call("GET", `/flows/${ORG}/${flow_name}`, { key: at.key })).body;
      const drafts = [
        EMPTY,
        templateOf("nobody-reports-this"),
        template.replaceAll(/type: \S+/g, "type: jira"),
        template,
      ];
      await begin();
      for (const template_file of drafts) {
        const before = statesOf(flow_name);
        const answer = await call("POST", `/previews/${ORG}`, {
          key: at.key,
          body: { edit_template: { flow_name, template_file } },
        });
        const { trails, own_template, left, unchanged, would_fail, would_pass, flips } = answer.body.next_trails;
        assert.equal([trails, unchanged + would_fail + would_pass], [before.size, before.size]);
        assert.is(trails + own_template + left, newest.all(flow_name).length);
        const predicted = new Map(before);
        for (const flip of flips) {
          assert.is(flip.before, before.get(flip.trail));
          predicted.set(flip.trail, flip.after);
        }
        const stored = await putTemplate(told.server, at, { flow_name, template_file });
        assert.is(stored.status, 200, stored.text);
        assert.equal(statesOf(flow_name), before, "saving turns nothing");
        await begin();
        assert.equal(statesOf(flow_name), predicted, `${flow_name}: ${template_file}`);
        turned.fail += would_fail;
        turned.pass += would_pass;
      }
    }
    assert.ok(turned.fail > 10 && turned.pass > 10, JSON.stringify(turned));
  } finally {
    await told.server.stop();
  }
});

test.run();
