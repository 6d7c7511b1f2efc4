/** `assay explain evaluation|decision`: what a Rego policy decided, and whether it still does (newer-clients 7.3). */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { systemSources } from "../clock.ts";
import { MAX_REGO_MEMORY_BYTES } from "../config/options.ts";
import { PUBLIC_ID, matches } from "../domain/names.ts";
import { describePolicy } from "../domain/rego/decision.ts";
import { isListOf, isObject, isText, readStoredJson } from "../domain/stored-json.ts";
import { JsonText, stringifyJson } from "../json/text.ts";
import { createRegoDocuments } from "../rego/documents.ts";
import { engineName } from "../rego/engine-name.ts";
import { REGO_LIMITS, createRegoEngine } from "../rego/engine.ts";
import { readOrder } from "../rego/stored-run.ts";
import type { RegoOutcome, RegoVerdict } from "../rego/types.ts";
import { startRegoWorker } from "../server/worker-threads.ts";
import { IN_DIRECTORY, findRecordedLocation } from "../store/attestations/evidence-location.ts";
import type { DbReader } from "../store/db/types.ts";
import { openReader } from "../store/reader.ts";
import type { StoreReader } from "../store/reader.ts";
import type { RegoEvaluationRow } from "../store/policies/rego-evaluations.ts";
import { resolveEvidenceAccess } from "./command-config.ts";
import { openEvidence, resolveEvidencePlace, withDataReadOnly } from "./data-directory.ts";
import { CommandError, EXIT, escapeLine, reportProblems } from "./framework.ts";
import type { Command, Io } from "./framework.ts";

type Args = Parameters<Command["run"]>[0];
type Access = Awaited<ReturnType<typeof resolveEvidenceAccess>>;
/** What is asked about: an evaluation, or the one that made a decision. */
type About = { kind: "evaluation" | "decision"; id: string };

/** The question of these words; null for one about an environment. No fingerprint looks like an id. */
export function parseEvaluation([kind, id]: readonly string[]): About | null {
  if (id === undefined || !matches(PUBLIC_ID, id)) return null;
  return kind === "evaluation" || kind === "decision" ? { kind, id } : null;
}

/** @throws CommandError */
export async function explainEvaluation(args: Args, io: Io, about: About): Promise<number> {
  const resolved = await resolveEvidenceAccess(args, io);
  const json = args.switches.has("json");
  return withDataReadOnly(resolved.directory, async (db) => {
    const store = openReader(db, systemSources);
    const row = requireEvaluation(store, about);
    const facts = describe(store, row);
    const replayed = args.switches.has("replay") ? await replay(db, { store, row, resolved }) : null;
    io.stdout(
      json ? `${stringifyJson({ ...facts, ...(replayed && { replay: replayed }) })}\n` : render(facts, replayed),
    );
    if (replayed === null || replayed.differences.length === 0) return EXIT.done;
    const engines = `${row.engine ?? "no engine"} evaluated it then, and ${replayed.engine} now`;
    const problem = `the evaluation has another result now (${replayed.differences.join(", ")}): ${engines}`;
    reportProblems(io, [problem], { json });
    return EXIT.failed;
  });
}

function requireEvaluation(store: StoreReader, { kind, id }: About): RegoEvaluationRow {
  const row = kind === "evaluation" ? store.regoEvaluations.findAnywhere(id) : store.regoEvaluations.findByDecision(id);
  if (row) return row;
  throw new CommandError(
    kind === "evaluation"
      ? `there is no evaluation ${id}; those without a decision are removed after their time`
      : `no evaluation made a decision ${id}`,
  );
}

const isTexts = isListOf(isText);
type Trail = { flow: string; trail: string; moment_number?: number };
const isTrails = isListOf((value: unknown): value is Trail => isObject(value) && isText(value["flow"]));

/** What the answer of the API shows of it, without links; the numbers of parameters and outputs as they are. */
function describe(store: StoreReader, row: RegoEvaluationRow) {
  const version = row.rego_policy_version_id;
  const { decision_attestation_id: decision } = row;
  return {
    id: row.public_id,
    organization: store.organizations.get(row.organization_id).name,
    status: row.status,
    requested_at: row.requested_at,
    recorded_at: row.recorded_at,
    requested_by: row.requested_by,
    policy: describePolicy({
      published: version === null ? null : store.regoPolicies.getVersionName(version),
      bundleSha256: row.bundle_sha256,
    }),
    engine: row.engine,
    input_sha256: row.input_sha256,
    trails: readStoredJson(row.trails_json, isTrails),
    params: new JsonText(row.params_json),
    decision:
      row.decision_name === null
        ? null
        : {
            name: row.decision_name,
            control: row.decision_control,
            flow: row.decision_flow,
            trail: row.decision_trail,
            fingerprint: row.decision_fingerprint,
            attestation_id: decision === null ? null : store.attestations.get(decision).public_id,
            error: row.decision_error,
          },
    allow: row.allow === null ? null : row.allow === 1,
    violations: row.violations_json === null ? [] : readStoredJson(row.violations_json, isTexts),
    outputs: new JsonText(row.outputs_json ?? "{}"),
    error: row.error_kind === null ? null : { kind: row.error_kind, message: row.error_message },
  };
}
type Facts = ReturnType<typeof describe>;

type Replayed = { engine: string; outcome: RegoOutcome<RegoVerdict>; differences: string[] };

/** Evaluates the stored bundle on the stored input again, with the time and the seed of the request. */
async function replay(
  db: DbReader,
  { store, row, resolved: { directory, access } }: { store: StoreReader; row: RegoEvaluationRow; resolved: Access },
) {
  if (row.input_digest === null) throw new CommandError(`evaluation ${row.public_id} has no input to replay`);
  const recorded = findRecordedLocation(db);
  const isElsewhere = resolveEvidencePlace(recorded, access) !== IN_DIRECTORY;
  const evidence =
    isElsewhere || existsSync(join(directory, "evidence"))
      ? (await openEvidence(directory, access, recorded)).store
      : null;
  const engine = createRegoEngine({
    ...REGO_LIMITS,
    // A completed one fitted into what its server allowed, which may have been more than the default.
    ...(row.status === "completed" ? { memoryBytes: MAX_REGO_MEMORY_BYTES } : {}),
    threads: 1,
    keepsReady: false,
    idleMs: 300_000,
    start: startRegoWorker,
    memory: null,
  });
  try {
    const documents = createRegoDocuments(store, {
      stageBytes: readOnly,
      discard: readOnly,
      open: async ({ digest }) => {
        if (evidence === null) throw new CommandError(`evidence ${digest} is missing`, EXIT.damaged);
        return Readable.from(evidence.read(digest));
      },
    });
    const { files, question } = await readOrder(documents, row);
    const outcome = await engine.evaluate(files, question);
    return { engine: engineName(), outcome, differences: compare(row, outcome) };
  } finally {
    await engine.close();
    await evidence?.close();
  }
}

const readOnly = (): never => {
  throw new Error("a replay stores nothing");
};

/** The names of what differs from the stored result. */
function compare(row: RegoEvaluationRow, outcome: RegoOutcome<RegoVerdict>): string[] {
  const stored = { allow: row.allow === 1, violations: row.violations_json, outputs: row.outputs_json };
  if (!outcome.ok) return row.error_kind === outcome.error.kind ? [] : [`failed: ${outcome.error.kind}`];
  if (row.status !== "completed") return [`allow is ${outcome.value.allow} now`];
  const { allow, violations, outputs } = outcome.value;
  return [
    ...(allow === stored.allow ? [] : [`allow is ${allow} now`]),
    ...(JSON.stringify(violations) === stored.violations ? [] : ["other violations"]),
    ...(outputs === stored.outputs ? [] : ["other outputs"]),
  ];
}

const verdictOf = ({ status, allow, error }: Facts): string =>
  allow === null ? (error ? `failed (${error.kind}): ${error.message}` : status) : allow ? "ALLOWED" : "DENIED";

function render(facts: Facts, replayed: Replayed | null): string {
  const { policy, decision } = facts;
  const lines: [name: string, text: string][] = [
    ["evaluation", `${facts.id} of ${facts.organization}`],
    ["requested", `${new Date(facts.requested_at * 1_000).toISOString()} by ${facts.requested_by}`],
    [
      "policy",
      policy.source === "inline" ? "sent with the request" : `${policy.identifier} @ version ${policy.version}`,
    ],
    ["digest", policy.sha256],
    ["engine", facts.engine ?? "none yet"],
    ["input", facts.input_sha256 ?? "none"],
    ...facts.trails.map(({ flow, trail, moment_number: moment }): [string, string] => [
      "trail",
      `${flow}/${trail}${moment === undefined ? "" : `, moment ${moment}`}`,
    ]),
    ["params", facts.params.text],
    ...(decision ? [["decision", describeDecision(decision)] as [string, string]] : []),
    ["verdict", verdictOf(facts)],
    ...facts.violations.map((text): [string, string] => ["violation", text]),
    ...(facts.outputs.text === "{}" ? [] : [["outputs", facts.outputs.text] as [string, string]]),
    ...(replayed
      ? [["replay", replayed.differences.length === 0 ? "the same result" : "ANOTHER RESULT"] as [string, string]]
      : []),
  ];
  return lines.map(([name, text]) => `${name.padEnd(12)}${escapeLine(text)}\n`).join("");
}

function describeDecision(decision: NonNullable<Facts["decision"]>): string {
  const { name, flow, trail, control, attestation_id: id, error } = decision;
  const outcome = id ?? (error === null ? "none" : `not recorded: ${error}`);
  return `${name} on ${flow}/${trail} for control ${control}: ${outcome}`;
}
