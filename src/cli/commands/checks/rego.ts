/**
 * `assay rego check`, `rego eval` and `rego test`: whether a Rego policy would be accepted, what it says about an
 * input, and whether its tests pass. They run the engine of the server, within its limits, without a server.
 */
import { systemSources } from "../../../clock.ts";
import { parseIsoTime } from "../../../domain/time.ts";
import { memberTexts } from "../../../json/walk.ts";
import { REGO_LIMITS, createRegoEngine } from "../../../rego/engine.ts";
import type { RegoEngine, RegoFailure, RegoTest } from "../../../rego/types.ts";
import { startRegoWorker } from "../../../server/worker-threads.ts";
import type { Args } from "../../args.ts";
import { escapeControls } from "../../command.ts";
import { EXIT, escapeLine, reportProblems } from "../../framework.ts";
import type { Command, Io } from "../../framework.ts";
import {
  listProblems,
  readBundle,
  readFixture,
  readJsonText,
  readParamsText,
  renderProblem,
  showPlace,
} from "../../rego-files.ts";
import type { NamedBundle } from "../../rego-files.ts";

const BUNDLE_HELP =
  "DIR is the directory of the policy: its files *.rego but those with tests, and its data files. A file is a policy " +
  "of its own. What a policy has to be is in assay help rego.";

export const regoCheck: Command = {
  name: "rego check",
  summary: "Check whether a Rego policy would be accepted, without a server",
  usage: "DIR",
  details: [
    BUNDLE_HELP,
    "Prints each mistake as FILE:LINE: MESSAGE, with exit code 1; otherwise the package, outputs and parameters of " +
      "the policy. Warnings do not make it a failure.",
  ],
  options: {},
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["DIR"] },
  async run(args, io) {
    const bundle = readBundle(io, args.positionals[0] ?? "", { tests: false });
    const outcome = await withEngine((engine) => engine.check(bundle.files));
    const json = args.switches.has("json");
    if (!outcome.ok) {
      const problems = listProblems(outcome.error, bundle);
      if (json) io.stdout(`${JSON.stringify({ valid: false, kind: outcome.error.kind, problems })}\n`);
      else io.stdout(problems.map((problem) => `${escapeControls(renderProblem(problem))}\n`).join(""));
      return EXIT.failed;
    }
    const { package: name, outputs, params } = outcome.value;
    const warnings = outcome.value.warnings.map((warning) => showPlace(warning, bundle));
    if (json) io.stdout(`${JSON.stringify({ valid: true, package: name, outputs, params, warnings })}\n`);
    else {
      const warned = warnings.map((warning) => `${escapeLine(warning.replace(/^(.*?:\d+: )/, "$1warning: "))}\n`);
      const lists = [
        `package:    ${name}`,
        `outputs:    ${outputs.join(", ") || "none"}`,
        `parameters: ${params === null ? "some are computed" : params.join(", ") || "none"}`,
      ];
      io.stdout(warned.join("") + lists.map((line) => `${escapeLine(line)}\n`).join(""));
    }
    return EXIT.done;
  },
};

export const regoEval: Command = {
  name: "rego eval",
  summary: "Evaluate a Rego policy on an input, without a server",
  usage: "[DIR] (--input FILE [--params FILE] | --fixture DIR) [--time TIME]",
  details: [
    `${BUNDLE_HELP} With --fixture, it may be left out: the policy is that of the fixture then.`,
    "Prints ALLOWED or DENIED, the violations and the outputs. Exit code 0 only if the policy allows.",
    "--fixture reads an evaluation as files: input.json, the policy in policy/ or beside it, and the parameters in " +
      "params.json or below params in data.json, such as `kosli get evaluation --fixture` writes.",
    "One of the files may be -, standard input.",
  ],
  options: {
    input: { kind: "text", placeholder: "FILE", description: "Input document, JSON" },
    params: { kind: "text", placeholder: "FILE", description: "Parameters, a JSON object (default {})" },
    fixture: { kind: "text", placeholder: "DIR", description: "Directory with the files of an evaluation" },
    time: { kind: "text", placeholder: "TIME", description: "Time of the evaluation, ISO 8601 (default: now)" },
  },
  takesConfig: false,
  positionals: { min: 0, max: 1, names: ["DIR"] },
  check({ positionals, texts }) {
    const time = texts.get("time")?.[0];
    const isFixture = texts.has("fixture");
    return [
      ...(positionals.length === 0 && !isFixture ? ["DIR is missing: give the directory of the policy"] : []),
      ...(texts.has("input") || isFixture ? [] : ["the input is missing: give --input FILE or --fixture DIR"]),
      ...(texts.get("input")?.[0] === "-" && texts.get("params")?.[0] === "-"
        ? ["--input and --params cannot both be standard input"]
        : []),
      ...(time !== undefined && parseIsoTime(time) === null
        ? [`--time: ${JSON.stringify(time.slice(0, 100))} is not a time: give one such as 2026-11-26T08:00:00Z`]
        : []),
    ];
  },
  async run(args, io) {
    const { bundle, ...question } = await readQuestion(args, io);
    const outcome = await withEngine((engine) => engine.evaluate(bundle.files, question));
    const json = args.switches.has("json");
    if (!outcome.ok) return reportFailure(io, outcome.error, { bundle, json });
    const { allow, violations, outputs } = outcome.value;
    if (json) io.stdout(`{"allow":${allow},"violations":${JSON.stringify(violations)},"outputs":${outputs}}\n`);
    else {
      const lines = [
        allow ? "ALLOWED" : "DENIED",
        ...violations.map((violation) => `  ${violation}`),
        ...memberTexts(outputs).map(([name, value]) => `${name}: ${value}`),
      ];
      io.stdout(lines.map((line) => `${escapeLine(line)}\n`).join(""));
    }
    return allow ? EXIT.done : EXIT.failed;
  },
};

/** What is evaluated: options come before the files of a fixture. */
async function readQuestion({ positionals, texts }: Args, io: Io) {
  const [directory] = positionals;
  const [input, params, fixtureName, time] = ["input", "params", "fixture", "time"].map((name) => texts.get(name)?.[0]);
  const fixture = fixtureName === undefined ? null : await readFixture(io, fixtureName);
  const now = time === undefined ? systemSources.now() : (parseIsoTime(time) as number);
  const inputText = input === undefined ? (fixture?.input ?? "") : await readJsonText(io, input);
  return {
    bundle:
      directory === undefined
        ? (fixture as { bundle: NamedBundle }).bundle
        : readBundle(io, directory, { tests: false }),
    input: Buffer.from(inputText),
    params: params === undefined ? (fixture?.params ?? "{}") : await readParamsText(io, params),
    timeNs: (time === undefined ? fixture?.timeNs : null) ?? nanoseconds(now),
    seed: OFFLINE_SEED,
  };
}

/** The id of an evaluation is its seed on a server. */
const OFFLINE_SEED = "";

const nanoseconds = (epochSeconds: number): bigint => BigInt(Math.round(epochSeconds * 1e6)) * 1_000n;

export const regoTest: Command = {
  name: "rego test",
  summary: "Run the tests of a Rego policy, without a server",
  usage: "DIR",
  details: [
    "Runs every rule whose name begins with test_, in the files of DIR that end in _test.rego. A test passes if it " +
      "is true. Those that begin with todo_test_ are skipped. Tests give their own input: `with input as`.",
    "Prints the tests that do not pass, with what they print, and how many there are. Exit code 0 only if there are " +
      "tests and all pass.",
  ],
  options: {},
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["DIR"] },
  async run(args, io) {
    const [name = ""] = args.positionals;
    const bundle = readBundle(io, name, { tests: true });
    const question = { params: "{}", timeNs: nanoseconds(systemSources.now()), seed: OFFLINE_SEED };
    const outcome = await withEngine((engine) => engine.test(bundle.files, question));
    const json = args.switches.has("json");
    if (!outcome.ok) return reportFailure(io, outcome.error, { bundle, json });
    const tests = outcome.value.map((one) => ({ ...one, file: bundle.show(one.file) }));
    const count = (...outcomes: RegoTest["outcome"][]) => tests.filter((one) => outcomes.includes(one.outcome)).length;
    const [passed, failed, skipped] = [count("pass"), count("fail", "error"), count("skip")];
    if (json) io.stdout(`${JSON.stringify({ passed, failed, skipped, tests })}\n`);
    else io.stdout(`${tests.map(renderTest).join("")}${passed} passed, ${failed} failed, ${skipped} skipped\n`);
    if (tests.length === 0) {
      const text = `${name} has no tests: a test is a rule test_... in a file that ends in _test.rego`;
      reportProblems(io, [text], { json });
    }
    return failed === 0 && passed > 0 ? EXIT.done : EXIT.failed;
  },
};

const WORDS: Readonly<Record<RegoTest["outcome"], string | null>> = {
  pass: null,
  fail: "FAILED",
  error: "ERROR",
  skip: "skipped",
};

function renderTest({ file, line, name, outcome, message }: RegoTest): string {
  if (WORDS[outcome] === null) return "";
  const printed = message === "" ? [] : message.trimEnd().split("\n");
  return [`${file}:${line}: ${WORDS[outcome]} ${name}`, ...printed.map((text) => `  ${text}`)]
    .map((text) => `${escapeLine(text)}\n`)
    .join("");
}

/** One instance, because a command makes one call. */
async function withEngine<Outcome>(call: (engine: RegoEngine) => Promise<Outcome>): Promise<Outcome> {
  const engine = createRegoEngine({
    ...REGO_LIMITS,
    threads: 1,
    keepsReady: false,
    idleMs: 300_000,
    start: startRegoWorker,
    memory: null,
  });
  try {
    return await call(engine);
  } finally {
    await engine.close();
  }
}

/** @returns the exit code */
function reportFailure(io: Io, error: RegoFailure, { bundle, json }: { bundle: NamedBundle; json: boolean }): number {
  const problems = listProblems(error, bundle);
  if (json) io.stderr(`${JSON.stringify({ error: error.message, kind: error.kind, problems })}\n`);
  else reportProblems(io, problems.map(renderProblem), { json });
  return EXIT.failed;
}
