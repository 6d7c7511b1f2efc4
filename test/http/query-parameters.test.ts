/** Numbers in queries: the forms that clients print, and the values they become. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Type } from "typebox";
import { AppError } from "../../src/errors.ts";
import { checkParameters, parseQueryParameters } from "../../src/http/query-parameters.ts";
import { Closed } from "../../src/http/schema.ts";

const test = suite("http/query-parameters");

const Query = Closed({
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 5_000_000_000 })),
  start_ts: Type.Optional(Type.Number()),
  name: Type.Optional(Type.String()),
});
const Path = Closed({ number: Type.Integer() });

/** Parses a query string; returns its values, or the field texts of its refusal. */
function read(query: string): Record<string, unknown> {
  try {
    return checkParameters(Query, parseQueryParameters(Query, query), "query");
  } catch (error) {
    assert.instance(error, AppError);
    return (error as AppError).fields ?? {};
  }
}

for (const [query, values] of [
  ["start_ts=1.795339938e%2B09", { start_ts: 1_795_339_938 }],
  ["start_ts=1.7953399385e%2B09", { start_ts: 1_795_339_938.5 }],
  ["start_ts=1.795339938E9", { start_ts: 1_795_339_938 }],
  ["start_ts=-1.5e1", { start_ts: -15 }],
  ["start_ts=%2B25e-1", { start_ts: 2.5 }],
  ["start_ts=0e0", { start_ts: 0 }],
  ["page=1.795339938e%2B09", { page: 1_795_339_938 }],
  ["page=1e3", { page: 1000 }],
  ["page=100e-2", { page: 1 }],
  ["page=1.50e1", { page: 15 }],
  ["name=1e3", { name: "1e3" }],
] as const)
  test(`reads ${query}`, () => assert.equal(read(query), values));

test("reads an exponent with an unescaped plus sign, which arrives as a space", () => {
  assert.equal(read("start_ts=1.795339938e+09&page=2e+00"), { start_ts: 1_795_339_938, page: 2 });
});

for (const text of [
  "1e400",
  "-1e400",
  "1e20",
  "123456789012345678901e0",
  "NaN",
  "Infinity",
  "0x10",
  "0x1e3",
  "e3",
  "1e",
  "1e+",
  "1.e3",
  ".5e1",
  "1e1.5",
  "1 e3",
  "1e3 ",
  "1_0e3",
  "1e0001",
])
  test(`refuses ${text} as a number, and shows what was sent`, () => {
    const problem = `Input should be a valid number [input: ${text}]`;
    assert.equal(read(`start_ts=${encodeURIComponent(text)}`), { start_ts: problem });
  });

for (const text of ["1.5e0", "15e-1", "1e-1", "1e-400", "1.00000000000000000001e1", "1e400"])
  test(`refuses ${text} as an integer`, () => {
    const problem = `Input should be a valid integer [input: ${text}]`;
    assert.equal(read(`page=${encodeURIComponent(text)}`), { page: problem });
  });

test("applies the bounds of a parameter to the exponent form", () => {
  assert.equal(read("page=1e10"), { page: "Input should be less than or equal to 5000000000 [input: 10000000000]" });
  assert.equal(read("page=0e5"), { page: "Input should be greater than or equal to 1 [input: 0]" });
});

test("refuses the exponent form in paths, so that an object has one URL", () => {
  const problem = "Input should be a valid integer [input: 1e1]";
  const isRefusal = (error: AppError): boolean => error.fields?.["number"] === problem;
  assert.throws(() => checkParameters(Path, { number: "1e1" }, "path"), isRefusal);
});

test.run();
