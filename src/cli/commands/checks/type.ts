/**
 * `assay type try`: whether the definition of a custom attestation type would be accepted, and what it says about data.
 * Runs in the sandbox of the server, without one.
 */
import { readJsonFile, readTypeFile, requireSchemaText } from "../../../contract/custom-type-input.ts";
import { evaluateCustom } from "../../../domain/attestation/custom.ts";
import type { RuleOutcome, Summary } from "../../../domain/attestation/custom.ts";
import { AppError } from "../../../errors.ts";
import { openCustomTypes } from "../../../server/worker-threads.ts";
import type { Args } from "../../args.ts";
import { readText } from "../../command-config.ts";
import { EXIT, escapeLine } from "../../framework.ts";
import type { Command, Io } from "../../framework.ts";
import { ORGANIZATION_OPTIONS, findMissingOrganization, readOrganization } from "./organization.ts";
import { systemSources } from "../../../clock.ts";

/** A problem of a file; `path` is "" for the file as a whole. */
type Problem = { file: string; path: string; message: string };

type Definition = { name: string; schema: string | null; rules: readonly string[]; summary: SummaryEntries };
type SummaryEntries = ReturnType<typeof readTypeFile>["summary"];

/** What a definition says about data: `mismatch` is why a report of it would be refused. */
type Verdict =
  | { mismatch: string }
  | { mismatch: null; is_compliant: boolean; rules: readonly RuleOutcome[]; summary: Summary | null };

type Outcome = { problems: Problem[]; warnings: Problem[]; verdict: Verdict | null };

export const typeTry: Command = {
  name: "type try",
  summary: "Check a custom attestation type and try it on data, without a server",
  usage: "FILE [ATTESTATION_DATA] [--schema FILE] [--org NAME [--data DIRECTORY]]",
  details: [
    "FILE is the JSON of an upload: name, description, evaluator and summary; --schema is the JSON Schema that is " +
      "uploaded with it. Prints each mistake as FILE: FIELD: MESSAGE, with exit code 1.",
    "With ATTESTATION_DATA, a file with the data of one report, also prints the verdict, the outcome of each rule " +
      "and the summary. Exit code 1 if the data does not match the schema, so that a report would be refused. What a " +
      "type may say is in assay help attestation-types. One of the files may be -, standard input.",
    "With --org, a type that no template and no policy of the organization asks for is a warning: its verdicts " +
      "decide nothing there but the state of trails to which it is reported anyway.",
  ],
  options: {
    schema: { kind: "text", placeholder: "FILE", description: "JSON Schema of the data" },
    ...ORGANIZATION_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 2, names: ["FILE", "ATTESTATION_DATA"] },
  check: findMissingOrganization,
  async run(args, io) {
    const outcome = await tryFiles(args, io);
    if (args.switches.has("json")) io.stdout(`${renderJson(outcome)}\n`);
    else io.stdout(renderOutcome(outcome));
    return outcome.problems.length === 0 && outcome.verdict?.mismatch == null ? EXIT.done : EXIT.failed;
  },
};

async function tryFiles(args: Args, io: Io): Promise<Outcome> {
  const [file = "", dataFile] = args.positionals;
  const schemaFile = args.texts.get("schema")?.[0];
  let problems: Problem[] = [];
  const read = async <T>(name: string, parse: (bytes: Buffer) => T): Promise<T | null> => {
    const bytes = Buffer.from(await readText(io, name));
    try {
      return parse(bytes);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      problems = problems.concat(problemsOf(name, error.fields ?? { file: error.message }));
      return null;
    }
  };
  const type = await read(file, readTypeFile);
  const schema =
    schemaFile === undefined ? null : await read(schemaFile, (bytes) => requireSchemaText(readJsonFile(bytes)));
  const data = dataFile === undefined ? null : await read(dataFile, (bytes) => ({ value: readJsonFile(bytes) }));
  if (!type || problems.length > 0) return { problems, warnings: [], verdict: null };
  const { verdict, mistakes } = await evaluate({ ...type, schema }, data);
  const { [SCHEMA_FIELD]: schemaMistake, ...others } = mistakes;
  if (schemaMistake !== undefined) problems = problemsOf(schemaFile ?? file, { [SCHEMA_FIELD]: schemaMistake });
  const warnings = await readOrganization(args, io, (store, organization) =>
    store.organizationNames.isTypeRequired(organization, type.name)
      ? []
      : [{ file, path: "name", message: describeUnused(type.name, organization) }],
  );
  return { problems: problems.concat(problemsOf(file, others)), warnings: warnings ?? [], verdict };
}

const describeUnused = (type: string, { name }: { name: string }): string =>
  `no template and no policy of organization '${name}' asks for custom:${type}`;

/** The field of problems about the schema. */
const SCHEMA_FIELD = "type_schema";

const problemsOf = (file: string, fields: Readonly<Record<string, string>>): Problem[] =>
  Object.entries(fields).map(([path, message]) => ({
    file,
    path: path === "file" || path === SCHEMA_FIELD ? "" : path,
    message,
  }));

/** The mistakes of a definition by field, and its verdict on data if it has none. */
async function evaluate(
  definition: Definition,
  data: { value: unknown } | null,
): Promise<{ verdict: Verdict | null; mistakes: Record<string, string> }> {
  const types = openCustomTypes();
  try {
    const mistakes = await types.check(definition.name, definition);
    if (data === null || Object.keys(mistakes).length > 0) return { verdict: null, mistakes };
    const report = { data: data.value, now: systemSources.now() };
    const evaluation = await types.evaluate(definition.name, definition, report);
    if ("mismatch" in evaluation) return { verdict: { mismatch: evaluation.mismatch }, mistakes };
    const { outcomes: rules, summary } = evaluation;
    const { isCompliant } = evaluateCustom(rules);
    return { verdict: { mismatch: null, is_compliant: isCompliant, rules, summary }, mistakes };
  } finally {
    await types.close();
  }
}

function renderJson({ problems, warnings, verdict }: Outcome): string {
  return JSON.stringify({ valid: problems.length === 0, problems, warnings, ...verdict });
}

function renderOutcome({ problems, warnings, verdict }: Outcome): string {
  const lines = [
    ...problems.map((problem) => renderProblem(problem, "")),
    ...warnings.map((warning) => renderProblem(warning, "warning: ")),
    ...(verdict === null ? [] : renderVerdict(verdict)),
  ];
  return lines.map((line) => `${escapeLine(line)}\n`).join("");
}

const renderProblem = ({ file, path, message }: Problem, kind: string): string =>
  `${file}: ${kind}${path === "" ? "" : `${path}: `}${message}`;

function renderVerdict(verdict: Verdict): string[] {
  if (verdict.mismatch !== null) return [`refused: ${verdict.mismatch}`];
  const { is_compliant, rules, summary } = verdict;
  return [
    is_compliant ? "COMPLIANT" : "NON-COMPLIANT",
    ...rules.map(({ rule, reason }) => (reason === null ? `  holds   ${rule}` : `  FAILED  ${rule}: ${reason}`)),
    ...(summary?.groups ?? []).flatMap((rows) =>
      rows.map(({ name, value, error }) => `  ${name}: ${error ?? renderValue(value)}`),
    ),
  ];
}

const renderValue = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
