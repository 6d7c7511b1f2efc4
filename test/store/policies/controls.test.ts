import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError } from "../../../src/errors.ts";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/policies/controls");
const FIELDS = { name: "one", description: null, links: {} };
const ANY = { search: "", archived: false, tags: [] };

function open() {
  const setup = opened();
  const organization = { id: setup.organizationId, name: "acme" };
  const create = (identifier: string, fields: Partial<typeof FIELDS> = {}) =>
    setup.store.controls.create(organization, { identifier, ...FIELDS, ...fields }, "ada");
  return { ...setup, organization, create, controls: setup.store.controls };
}

test("every change makes a version with a copy of the control, its author and time", () => {
  const { controls, create, db } = open();
  let control = create("C-1");
  control = controls.update(control, { name: "two", description: "d", links: { a: "b" } }, "bob");
  control = controls.archive(control, "eve");
  control = controls.update(control, { name: "three", description: "d", links: { a: "b" } }, "bob");
  control = controls.unarchive(control, "eve");
  const rows = controls.listVersions(control.id, "asc", { limit: 10, offset: 0 });
  assert.equal(
    rows.map(({ timestamp: _, ...row }) => Object.values(row)),
    [
      [1, "created", "one", null, "{}", "ada"],
      [2, "edited", "two", "d", '{"a":"b"}', "bob"],
      [3, "archived", "two", "d", '{"a":"b"}', "eve"],
      [4, "edited", "three", "d", '{"a":"b"}', "bob"],
      [5, "unarchived", "three", "d", '{"a":"b"}', "eve"],
    ],
  );
  assert.equal(
    { version: control.version, archived: control.archived, created_by: control.created_by },
    { version: 5, archived: 0, created_by: "ada" },
  );
  assert.is(rows[0]?.timestamp, control.created_at);
  assert.is(rows[4]?.timestamp, db.prepare("SELECT last_modified_at FROM controls").pluck().get());
  assert.equal(controls.findVersion(control.id, 2), rows[1]);
  assert.is(controls.findVersion(control.id, 6), null);
});

test("an edit without a change writes nothing", () => {
  const { controls, create, db } = open();
  const control = create("C-1", { links: { b: "1", a: "2" } });
  const changes = () => db.prepare("SELECT total_changes()").pluck().get();
  const before = changes();
  assert.is(controls.update(control, { ...FIELDS, links: { a: "2", b: "1" } }, "bob"), control);
  assert.is(controls.unarchive(control, "bob"), control);
  assert.is(changes(), before);
});

test("refuses an identifier that was ever used, as a conflict", () => {
  const { controls, create } = open();
  controls.archive(create("C-1"), "ada");
  try {
    create("C-1");
    assert.unreachable("it is taken");
  } catch (error) {
    assert.instance(error, AppError);
    assert.equal(
      { code: (error as AppError).code, message: (error as AppError).message },
      { code: "conflict", message: "A control with identifier 'C-1' already exists in organization 'acme'" },
    );
  }
});

test("finds a renamed control by its new name only", () => {
  const { controls, create, organizationId } = open();
  const found = (search: string): number => controls.count(organizationId, { ...ANY, search });
  const control = create("C-1", { name: "STRASSE Ä" });
  assert.equal(["strasse", "ä", "a\u0308", "straße"].map(found), [1, 1, 1, 0]);
  controls.update(control, { ...FIELDS, name: "Weg" }, "ada");
  assert.equal(["strasse", "weg"].map(found), [0, 1]);
});

test("a policy version has the controls of its text, once each, with or without parsed rules", () => {
  const { store, controls, create, organizationId, db } = open();
  const [one, two] = [create("C-1"), create("C-2")];
  const put = (yaml: string) =>
    store.policies.put(organizationId, {
      name: "p",
      description: "",
      user: "ada",
      file: { yaml: `_schema: x/v1\n${yaml}`, comment: "" },
    });
  const rule = (control: string) => `    - {type: decision, for_control: ${control}}\n`;
  put(`artifacts:\n  attestations:\n${rule("C-1")}${rule("C-1")}${rule("C-2")}`);
  assert.equal(
    {
      "policiesReferencing(one.id)": controls.listReferencingPolicies(one.id),
      "policiesReferencing(two.id)": controls.listReferencingPolicies(two.id),
    },
    { "policiesReferencing(one.id)": ["p"], "policiesReferencing(two.id)": ["p"] },
  );
  put(`artifacts:\n  attestations:\n${rule("C-2")}`);
  assert.equal(
    {
      "policiesReferencing(one.id)": controls.listReferencingPolicies(one.id),
      "policiesReferencing(two.id)": controls.listReferencingPolicies(two.id),
    },
    { "policiesReferencing(one.id)": [], "policiesReferencing(two.id)": ["p"] },
  );
  assert.is(db.prepare("SELECT count(*) FROM policy_version_controls").pluck().get(), 3);
});

test("no statement scans a table; lists follow an index, and decisions use theirs alone", () => {
  const { db, sql } = open();
  const mine = sql.filter(
    (text) =>
      /\bcontrols?\b|control_/.test(text) &&
      !/current_attestations|snapshot/.test(text) &&
      !/INSERT INTO attestations/.test(text),
  );
  assert.ok(mine.length >= 20, String(mine.length));
  for (const text of mine) assert.equal(scans(db, text), [], text);
  const lists = mine.filter((text) => /FROM controls AS c .* LIMIT/s.test(text)).map((text) => plan(db, text));
  assert.is(lists.length, 2);
  for (const steps of lists) {
    assert.is(steps[0], "SEARCH c USING INDEX controls_by_name (organization_id=? AND archived=?)");
    assert.not.ok(
      steps.some((step) => step.includes("ORDER BY")),
      steps.join("\n"),
    );
  }
  const decisions = mine.filter((text) => text.includes("@compliant")).map((text) => plan(db, text));
  assert.is(decisions.length, 5);
  for (const steps of decisions)
    assert.ok(
      steps.some((step) =>
        step.startsWith(
          "SEARCH attestations USING COVERING INDEX attestations_by_control (organization_id=? AND control=?",
        ),
      ),
      steps.join("\n"),
    );
});

test.run();
