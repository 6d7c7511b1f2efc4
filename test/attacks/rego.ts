/** Rego policies that take all the time or memory they can get. Each evaluation runs after its answer. */
import type { Attack } from "./attack.ts";
import { jsonRequest } from "./attack.ts";

/** A rule that is true once its body has been computed. */
const policy = (body: string): string => `package policy\n\ndefault allow := false\n\nallow if {\n\t${body}\n}\n`;

/** A list of more memory than any engine has. */
export const MEMORY_BOMB = policy("count(numbers.range(1, 100000000)) > 0");

const POLICIES: Readonly<Record<string, string>> = {
  "a list of a hundred million numbers": MEMORY_BOMB,
  "two million texts": policy('count([text | some n in numbers.range(1, 2000000); text := sprintf("%060d", [n])]) > 0'),
  "a billion pairs": policy(
    "some x in numbers.range(1, 30000)\n\tsome y in numbers.range(1, 30000)\n\tx + y == -1\n\tsome z in [x]\n\tz > 0",
  ),
  "all subsets by walk": policy("count([1 | some n in numbers.range(1, 3000); walk(input, [_, n])]) == -1"),
};

let sent = 0;

const evaluation =
  (source: string, params: object = {}): Attack["request"] =>
  ({ org, flow, trail, memberKey }) =>
    jsonRequest(
      "POST",
      `/evaluations/${org}`,
      memberKey,
      JSON.stringify({
        context: { trails: [{ flow, trail }] },
        policy: { files: { "policy.rego": source } },
        // The same request again would be answered with the pending evaluation.
        params: { ...params, number: ++sent },
      }),
    );

/** 503: the queue of the caller is full. */
const QUEUED = [{ status: 201 }, { status: 503 }];

export const REGO_ATTACKS: readonly Attack[] = [
  ...Object.entries(POLICIES).map(
    ([name, source]): Attack => ({
      name: `an evaluation of ${name}`,
      request: evaluation(source),
      expect: QUEUED,
      parallel: 4,
    }),
  ),
  {
    name: "a megabyte of policies to evaluate",
    request: evaluation(
      `${policy("true")}${Array.from({ length: 20_000 }, (_, n) => `r${n} := [${n}, "${n}"]\n`).join("")}`,
    ),
    expect: QUEUED,
    parallel: 4,
  },
  {
    name: "a Rego policy of nested lists",
    request: ({ org, memberKey }) =>
      jsonRequest(
        "PUT",
        `/rego-policies/${org}/nested`,
        memberKey,
        JSON.stringify({ files: { "policy.rego": `package policy\n\nallow := ${"[".repeat(400_000)}` } }),
      ),
    expect: [{ status: 400 }],
  },
];
