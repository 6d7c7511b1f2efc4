/**
 * Our OpenAPI document against the shapes of the contract's: whatever the document lacks, closes or requires beyond
 * them is in the list of exceptions, with its reason. `test/cases/openapi-compare/reference.json` has the shapes
 * without texts, one operation or component a line.
 */
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli } from "../cli/in-process.ts";

const test = suite("whole/reference");
const [reference, exceptions] = ["reference.json", "exceptions.yaml"].map((file) =>
  join(import.meta.dirname, "..", "cases", "openapi-compare", file),
) as [string, string];

test("the OpenAPI document has what the contract's has, but for the exceptions, of which each is one", async () => {
  const { code, out, err } = await cli(["openapi", "--compare", reference, "--except", exceptions]);
  assert.equal({ err, out: out.replace(/\d+/, "N") }, { err: "", out: "No differences but N exceptions.\n" });
  assert.is(code, 0);
});

test("every exception has a reason of its own", async () => {
  const { out } = await cli(["openapi", "--compare", reference, "--except", exceptions, "--json"]);
  const { differences, excepted, unused_exceptions } = JSON.parse(out);
  assert.equal({ differences, unused_exceptions }, { differences: [], unused_exceptions: [] });
  for (const { operation, place, problem, reason } of excepted)
    assert.ok(reason.length > 15, `${operation}: ${place}: ${problem}`);
});

test.run();
