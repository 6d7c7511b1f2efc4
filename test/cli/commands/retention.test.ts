import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ATTESTATION_FIELDS, TRAIL_FIELDS, createFlow } from "../../store/given.ts";
import { auditOf, cli, inDirectory, joinPatterns, look } from "../in-process.ts";

const test = suite("cli/commands/retention");

type Trail = { org?: string; flow?: string; name: string; days: number; fingerprint?: string; file?: string };

/**
 * A data directory with the organizations acme and other; `make` creates a trail whose last event was `days` ago.
 */
const given = (body: (data: string, make: (trail: Trail) => void) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await cli(["apply", "-", "--data", data], { stdin: "organizations: [{name: other}]" });
    await body(data, ({ org = "acme", flow: flowName = "build", name, days, fingerprint, file }) =>
      look(data, (store, db) => {
        const organizationId = store.organizations.find(org)?.id as number;
        const flow = store.flows.find(organizationId, flowName) ?? createFlow(store, organizationId, flowName);
        const trail = store.trails.create(
          { organizationId, flowId: flow.id, name, createdBy: "ada" },
          {
            ...TRAIL_FIELDS,
            template_id: flow.template_id,
          },
        );
        if (fingerprint !== undefined)
          db.prepare(
            `INSERT INTO artifacts (public_id, organization_id, flow_id, trail_id, fingerprint, filename, git_commit,
          build_url, commit_url, template_json, created_by, created_at,
                                    last_modified_at, state, attestations_json, reasons_json)
          VALUES (?, ?, ?, ?, ?, 'app', 'c', '', '', '[]', '', 0, 0, 'COMPLIANT', '[]', '[]')`,
          ).run(`artifact-${name}`, organizationId, flow.id, trail.id, fingerprint.repeat(64));
        const { id } = store.attestations.create({
          organization_id: organizationId,
          flow_id: flow.id,
          trail_id: trail.id,
          ...ATTESTATION_FIELDS,
          name: "tests",
          evidence_digest: file?.repeat(64) ?? null,
          evidence_size: file === undefined ? null : 2048,
          evidence_filename: file === undefined ? null : "junit.xml",
          reported_by: "ci",
          created_at: 1,
        });
        store.attestations.bindToTrail(trail.id, id, "tests");
        store.trailEvaluation.evaluate(trail.id, 1);
        const at = Date.now() / 1000 - days * 86_400;
        db.prepare("UPDATE trails SET created_at = ?, last_modified_at = ? WHERE id = ?").run(at, at, trail.id);
      }),
    );
  });

const ok = async (...words: string[]): Promise<string> => {
  const { code, out, err } = await cli(words);
  assert.is(code, 0, err);
  return out;
};
const json = async (...words: string[]): Promise<any> => JSON.parse(await ok(...words, "--json"));
const trailsOf = (data: string): unknown[] =>
  look(data, (_, db) => db.prepare("SELECT name FROM trails ORDER BY name").pluck().all());

test("sets, lists and removes rules, each with an audit entry", () =>
  given(async (data, make) => {
    make({ name: "t", days: 1 });
    const on = ["--data", data];
    assert.is(await ok("retention", "list", ...on), "no rules: everything is kept\n\nno legal holds\n");
    assert.is(
      await ok("retention", "set", "--org", "acme", "--trails-after", "365", "--evidence-after", "90", ...on),
      "organization acme: trails for 365 days, files for 90 days\n" +
        "nothing is deleted until you run assay retention run\n",
    );
    await ok("retention", "set", "--org", "acme", "--flow", "build", "--keep", ...on);
    assert.is(
      await ok("retention", "list", ...on),
      "ORGANIZATION  FLOW   TRAILS   FILES\nacme          -      365d     90d\n" +
        "acme          build  forever  forever\n\nno legal holds\n",
    );
    assert.equal(await json("retention", "list", "--org", "acme", ...on), {
      rules: [
        { organization: "acme", flow: null, trails_after_days: 365, evidence_after_days: 90 },
        { organization: "acme", flow: "build", trails_after_days: null, evidence_after_days: null },
      ],
      holds: [],
    });
    assert.is(
      await ok("retention", "unset", "--org", "acme", "--flow", "build", ...on),
      "removed the rule for acme/build\n",
    );
    assert.equal((await json("retention", "list", "--org", "other", ...on)).rules, []);
    assert.equal(auditOf(data).slice(-3), [
      'retention set retention.rule_set acme {"trails_after_days":365,"evidence_after_days":90}',
      'retention set retention.rule_set acme/build {"trails_after_days":null,"evidence_after_days":null}',
      "retention unset retention.rule_removed acme/build {}",
    ]);
  }));

test("accepts durations in whole days; a bare number means days", () =>
  given(async (data) => {
    for (const [text, days] of [
      ["90", 90],
      ["90d", 90],
      ["52w", 364],
      ["48h", 2],
      ["1w1d", 8],
      ["36500d", 36_500],
    ] as const) {
      const { out, err } = await cli([
        "retention",
        "set",
        "--org",
        "acme",
        "--trails-after",
        text,
        "--json",
        "--data",
        data,
      ]);
      assert.equal(
        { err, out: JSON.parse(out) },
        { err: "", out: { organization: "acme", flow: null, trails_after_days: days, evidence_after_days: null } },
        text,
      );
    }
  }));

test("refuses contradictory arguments and changes nothing", () =>
  given(async (data, make) => {
    make({ name: "t", days: 1 });
    const before = auditOf(data).length;
    const cases: [string[], number, string][] = [
      [["set", "--org", "acme"], 2, "give --trails-after, --evidence-after or both, or --keep alone"],
      [["set", "--org", "acme", "--keep", "--trails-after", "5"], 2, "or --keep alone"],
      [["set", "--trails-after", "5"], 2, "--org: give the name of an organization"],
      [
        ["set", "--org", "acme", "--trails-after", "0"],
        2,
        "--trails-after: give whole days from 1d to 36500d, such as 90d or 52w",
      ],
      [["set", "--org", "acme", "--trails-after", "36h"], 2, "--trails-after: give whole days"],
      [["set", "--org", "acme", "--trails-after", "36501d"], 2, "--trails-after: give whole days"],
      [["set", "--org", "acme", "--trails-after", "1.5"], 2, "--trails-after: give whole days"],
      [
        ["set", "--org", "acme", "--trails-after", "30", "--evidence-after", "30"],
        2,
        "--evidence-after: files are deleted before their trails",
      ],
      [["set", "--org", "nobody", "--trails-after", "5"], 1, 'there is no organization "nobody"'],
      [["set", "--org", "acme", "--flow", "nothing", "--trails-after", "5"], 1, "Flow"],
      [["unset", "--org", "acme"], 1, "There is no retention rule for 'acme'"],
      [["hold", "--org", "acme"], 2, "--reason: give a reason"],
      [["hold", "--org", "acme", "--reason", "x", "--trail", "t"], 2, "--trail: give --flow too"],
      [
        ["hold", "--org", "acme", "--reason", "x", "--flow", "build", "--trail", "u"],
        1,
        "'acme/build' has no trail 'u'",
      ],
      [["release", "x"], 1, 'there is no hold "x"'],
      [["run"], 2, "--plan: give a plan printed by assay retention plan"],
      [["run", "--plan", "1-2"], 2, "--plan: give a plan"],
      [["run", "--plan", `1-${"a".repeat(24)}`, "--limit", "0"], 2, "--limit: give a number of at least 1"],
      [["run", "--plan", `1-${"a".repeat(24)}`], 1, "the plan is no longer valid"],
      [["deleted"], 2, "--org: give the name of an organization"],
      [
        ["deleted", "--org", "acme", "--limit", "1001", "--before", "x"],
        2,
        "--limit: give a number from 1 to 1000\nassay: --before: give the number of an entry",
      ],
    ];
    for (const [words, code, text] of cases) {
      const outcome = await cli(["retention", ...words, "--data", data]);
      assert.is(outcome.code, code, `${words.join(" ")}: ${outcome.err}`);
      assert.ok(outcome.err.includes(text), `${words.join(" ")}: ${outcome.err}`);
      assert.is(outcome.out, "");
    }
    assert.is(auditOf(data).length, before);
    assert.equal(trailsOf(data), ["t"]);
  }));

test("a hold protects a trail, its release is recorded, and a second release is refused", () =>
  given(async (data, make) => {
    const on = ["--data", data];
    make({ name: "t", days: 99 });
    await ok("retention", "set", "--org", "acme", "--trails-after", "30", ...on);
    const hold = await json(
      "retention",
      "hold",
      "--org",
      "acme",
      "--flow",
      "build",
      "--trail",
      "t",
      "--reason",
      "case 7",
      "--by",
      "legal",
      ...on,
    );
    assert.equal(
      { ...hold, id: "", trail_id: "", placed_at: 0 },
      {
        id: "",
        organization: "acme",
        flow: "build",
        trail: "t",
        trail_id: "",
        reason: "case 7",
        placed_by: "legal",
        placed_at: 0,
        released_by: null,
        released_at: null,
      },
    );
    assert.match(await ok("retention", "plan", ...on), "kept: 1 trail under a legal hold\n    t: hold");
    assert.match(
      await ok("retention", "list", ...on),
      new RegExp(`\nHOLD {30}ON {12}SINCE {17}BY {5}REASON\n${hold.id}  acme/build/t  \\S{20}  legal  case 7\n$`),
    );
    assert.match(await ok("retention", "release", hold.id, "--by", "legal", ...on), "released");
    assert.not.match(await ok("retention", "list", ...on), hold.id);
    assert.match(
      await ok("retention", "list", "--all", ...on),
      new RegExp(
        `RELEASED {14}RELEASED BY  REASON\n${hold.id}  acme/build/t  \\S{20}  legal  \\S{20}  legal {8}case 7\n$`,
      ),
    );
    const again = await cli(["retention", "release", hold.id, ...on]);
    assert.is(again.code, 1);
    assert.match(again.err, `The legal hold '${hold.id}' was already released`);
    assert.equal(
      auditOf(data)
        .slice(-2)
        .map((line) => line.replaceAll(hold.id, "ID")),
      [
        'retention hold retention.hold_placed ID {"on":"acme/build/t","reason":"case 7","by":"legal"}',
        'retention release retention.hold_released ID {"on":"acme/build/t","reason":"case 7","by":"legal"}',
      ],
    );
  }));

test("plans a deletion, runs exactly that plan, and lists the deleted data", () =>
  given(async (data, make) => {
    const on = ["--data", data];
    make({ name: "old", days: 99, fingerprint: "a", file: "e" });
    make({ name: "middle", days: 20, file: "f" });
    make({ name: "new", days: 1, file: "d" });
    make({ org: "other", name: "old", days: 99 });
    await ok("retention", "set", "--org", "acme", "--trails-after", "30", "--evidence-after", "10", ...on);
    const text = await ok("retention", "plan", ...on);
    const lines = text.replace(/\d{4}-\d\d-\d\dT[\d:]+Z/g, "TIME").replace(/--plan \S+/, "--plan PLAN");
    assert.is(
      lines,
      [
        "acme/build  (rule of organization acme: trails for 30 days, files for 10 days)",
        "  deleted: 1 trail with 1 artifact and 1 attestation and the files of 1 trail, 2 files, 4 KB; last " +
          "events from TIME to TIME",
        "total: 1 trail to delete, 1 trail to lose files, 2 files, 4 KB",
        "to delete exactly this: assay retention run --plan PLAN",
        "",
      ].join("\n"),
    );
    const { plan, flows } = await json("retention", "plan", "--org", "acme", ...on);
    assert.equal(
      { ...flows[0], oldest_last_event: 0, newest_last_event: 0 },
      {
        organization: "acme",
        flow: "build",
        trails: 1,
        stripped: 1,
        artifacts: 1,
        attestations: 1,
        files: 2,
        bytes: 4096,
        oldest_last_event: 0,
        newest_last_event: 0,
        kept: { held: 0, ran: 0, referenced: 0, shared: 0 },
        examples: [],
        rule: { of_flow: false, trails_after_days: 30, evidence_after_days: 10 },
      },
    );
    const other = await cli(["retention", "run", "--plan", plan, ...on]);
    assert.is(other.code, 1, "the plan was for one organization");
    assert.is((await json("retention", "run", "--plan", plan, "--org", "acme", "--limit", "1", ...on)).finished, false);
    assert.equal(await json("retention", "run", "--plan", plan, "--org", "acme", ...on), {
      plan,
      trails: 1,
      stripped: 0,
      kept: 0,
      finished: true,
    });
    assert.equal(trailsOf(data), ["middle", "new", "old"]);
    assert.is(
      await ok("retention", "run", "--plan", plan, "--org", "acme", ...on),
      "deleted 0 trails and the files of 0 trails\n",
      "nothing is left of it",
    );
    assert.match(await ok("retention", "plan", ...on), "nothing to delete\n");
    const { deleted } = await json("retention", "deleted", "--org", "acme", ...on);
    assert.equal(
      deleted.map(({ kind, name, size }: any) => [kind, name, size]),
      [
        ["trail", "old", null],
        ["evidence", "tests", 2048],
      ],
    );
    assert.equal(
      (await ok("retention", "deleted", "--org", "acme", "--flow", "build", "--limit", "1", ...on)).split("\n").length,
      3,
      "a header and a line",
    );
    assert.equal(await json("retention", "deleted", "--org", "other", ...on), { deleted: [] });
    const audit = auditOf(data).filter((line) => line.startsWith("retention run"));
    assert.equal(audit.length, 2);
    assert.match(
      audit[1] ?? "",
      joinPatterns(
        /^retention run trail\.deleted build\/old/,
        / \{"trail_id":"[\w-]+","artifacts":1,"attestations":1,"events":0,"files":1,/,
        /"digest":"[0-9a-f]{64}","rule":"organization acme: .*"\}$/,
      ),
    );
    look(data, (_, db) => {
      assert.equal(db.pragma("foreign_key_check"), []);
      assert.equal(db.prepare("SELECT plan, started_by, finished_at IS NOT NULL FROM retention_runs").raw().all(), [
        [plan, "operator", 1],
      ]);
    });
  }));

test("refuses an outdated plan as a whole", () =>
  given(async (data, make) => {
    const on = ["--data", data];
    make({ name: "old", days: 99 });
    await ok("retention", "set", "--org", "acme", "--trails-after", "30", ...on);
    const refused = async (change: () => unknown): Promise<void> => {
      const { plan } = await json("retention", "plan", ...on);
      await change();
      const outcome = await cli(["retention", "run", "--plan", plan, ...on]);
      assert.equal({ code: outcome.code, out: outcome.out }, { code: 1, out: "" });
      assert.match(
        outcome.err,
        "the plan is no longer valid: rules, holds or trails have changed since, or --org differs\n" +
          "assay: nothing was deleted; see assay retention plan",
      );
      assert.ok(trailsOf(data).includes("old"));
    };
    await refused(() => make({ name: "older", days: 100 }));
    await refused(() => ok("retention", "set", "--org", "acme", "--trails-after", "20", ...on));
    await refused(() => ok("retention", "hold", "--org", "other", "--reason", "x", ...on));
  }));

test.run();
