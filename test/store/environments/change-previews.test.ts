/** The bounds of a preview: where it stops, and what it says about the rest. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { findRulePositions } from "../../../src/domain/policy/rule-positions.ts";
import { runtime } from "../../runtime.ts";
import { opened } from "../given.ts";

const test = suite("store/environments/change-previews");

const TWO_RULES = "_schema: /v1\nartifacts:\n  provenance: { required: true }\n  attestations: [{ type: junit }]\n";
const AMPLE = {
  environments: 100,
  artifacts: 100,
  listed: 100,
  reasons: 100,
  chars: 100_000,
  isOver: (): boolean => false,
};

/** Environments e0 to e2 in which 3, 2 and 1 artifacts without provenance run, and no policy. */
function world() {
  const house = opened();
  const { environment, report } = runtime(house);
  const ids = [3, 2, 1].map((count, number) => {
    const id = environment(house.organizationId, `e${number}`);
    report(
      id,
      Array.from({ length: count }, (_, index) => ({
        name: `app-${index}`,
        fingerprint: `${number}${index}`.padStart(64, "a"),
      })),
    );
    return id;
  });
  const { policy: document } = parsePolicy(TWO_RULES);
  assert.ok(document);
  const draft = { name: "new", document, positions: findRulePositions(TWO_RULES) };
  return {
    ...house,
    ids,
    preview: (bounds: Partial<typeof AMPLE> = {}, environmentIds: readonly number[] = ids) =>
      house.store.changePreviews.preview(
        { change: { kind: "draft", draft, policyId: null, environmentIds }, at: 0 },
        { ...AMPLE, ...bounds },
      ),
  };
}

type Preview = ReturnType<ReturnType<typeof world>["preview"]>;
const failing = ({ environments }: Preview): unknown[] =>
  environments.map(({ environment, would_fail, artifacts, after }) => [environment, would_fail, artifacts, after]);

test("without a bound that is reached, nothing is left", () => {
  const preview = world().preview();
  assert.equal(failing(preview), [
    ["e0", 3, 3, "NON-COMPLIANT"],
    ["e1", 2, 2, "NON-COMPLIANT"],
    ["e2", 1, 1, "NON-COMPLIANT"],
  ]);
  assert.is(preview.stopped, null);
  assert.is(world().preview({ environments: 3, artifacts: 6 }).stopped, null);
});

test("stops at the number of environments", () => {
  const preview = world().preview({ environments: 2 });
  assert.is(preview.environments.length, 2);
  assert.equal(preview.stopped, { reason: "environments", environments_left: 1, artifacts_left: 1 });
});

test("stops at the number of artifacts, within an environment and between two", () => {
  const within = world().preview({ artifacts: 4 });
  assert.equal(failing(within), [
    ["e0", 3, 3, "NON-COMPLIANT"],
    ["e1", 1, 2, "NON-COMPLIANT"],
  ]);
  assert.equal(within.stopped, { reason: "artifacts", environments_left: 2, artifacts_left: 2 });
  const between = world().preview({ artifacts: 3 });
  assert.equal(between.environments[1]?.after, "UNKNOWN", "nothing is said about an environment that was not reached");
  assert.equal(between.stopped, { reason: "artifacts", environments_left: 2, artifacts_left: 3 });
});

test("says nothing of a logical environment with a member that was not evaluated whole", () => {
  const { store, db, ids, organizationId } = world();
  const { environment } = runtime({ db, store });
  environment(organizationId, "group", "logical", ids.slice(0, 1));
  const organization = { id: organizationId, name: "acme" };
  const environmentId = ids[0] as number;
  const change = { kind: "policies", organization, environmentId, attach: [], detach: [] } as const;
  const groups = (bounds: Partial<typeof AMPLE>): unknown[] =>
    store.changePreviews
      .preview({ change, at: 0 }, { ...AMPLE, ...bounds })
      .logical_environments.map((one) => [one.environment, one.after]);
  db.prepare("UPDATE snapshots SET policy_versions_json = '[9]'").run();
  assert.equal(groups({}), [["group", "UNKNOWN"]]);
  assert.equal(groups({ artifacts: 2 }), []);
  assert.equal(groups({ artifacts: 3 }), [["group", "UNKNOWN"]]);
});

test("stops when the time is over", () => {
  let asked = 0;
  const preview = world().preview({ isOver: () => ++asked > 5 });
  assert.equal(failing(preview).at(-1), ["e2", 0, 1, "UNKNOWN"]);
  assert.equal(preview.stopped, { reason: "time", environments_left: 1, artifacts_left: 1 });
  assert.equal(world().preview({ isOver: () => true }).stopped, {
    reason: "time",
    environments_left: 3,
    artifacts_left: 6,
  });
});

test("counts the artifacts and reasons that it does not list", () => {
  const { environments } = world().preview({ listed: 4, reasons: 1 });
  assert.equal(
    environments.map(({ would_fail, flips, not_listed }) => [would_fail, flips.length, not_listed]),
    [
      [3, 3, 0],
      [2, 1, 1],
      [1, 0, 1],
    ],
  );
  const flip = environments[0]?.flips[0];
  assert.equal([flip?.reasons.length, flip?.reasons[0]?.line, flip?.further_reasons], [1, 3, 1]);
  const text = flip?.reasons[0]?.text ?? "";
  const short = world().preview({ chars: text.length + 1 });
  assert.equal(
    short.environments[0]?.flips.map(({ reasons, further_reasons }) => [reasons.length, further_reasons]),
    [
      [1, 1],
      [0, 2],
      [0, 2],
    ],
  );
});

test("a policy in force that cannot be read makes every artifact unknown", () => {
  const { db, store, organizationId, ids, preview } = world();
  const yaml = "_schema: /v1\n";
  const { policy } = store.policies.put(organizationId, {
    name: "old",
    description: "",
    user: "ada",
    file: { yaml, comment: "" },
  });
  store.environments.attachPolicies(ids[2] as number, [policy.id]);
  db.prepare("UPDATE policy_versions SET policy_yaml = 'no policy' WHERE policy_id = ?").run(policy.id);
  const [shown] = preview({}, [ids[2] as number]).environments;
  assert.equal([shown?.unknown, shown?.would_fail, shown?.after], [1, 0, "UNKNOWN"]);
  assert.match(shown?.unknown_artifacts[0]?.reason ?? "", /^It cannot be evaluated: version 1 of policy \d+ is stored/);
});

test.run();
