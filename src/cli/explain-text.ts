/**
 * An explanation for people: the answer first, then what there was, then each artifact, those that are not compliant
 * before the others. Texts of other people never begin a line and have their control characters escaped.
 */
import { verdictWord } from "../domain/compliance/replay.ts";
import type { FlowRecord } from "../domain/compliance/environment.ts";
import type { RuleVerdict } from "../domain/policy/evaluate.ts";
import { outcomeInWords, ruleInWords } from "../domain/policy/reasons.ts";
import { problemsOf } from "../store/environments/explanation-types.ts";
import type {
  ExplainedArtifact,
  ExplainedAttestation,
  ExplainedVersion,
  Explanation,
} from "../store/environments/explanation-types.ts";
import { oneLine } from "./framework.ts";
import type { Question } from "./explain-question.ts";

/** The whole text, with its last line feed. */
export function explanationText(explanation: Explanation, question: Question): string {
  const lines = [
    ...(question.fingerprint === null ? [answer(explanation)] : answersAbout(explanation, question.fingerprint)),
    ...warning(explanation),
    ...head(explanation, question.organization),
    ...body(explanation, question.fingerprint),
    "",
    ...again(explanation),
  ];
  return `${lines.map(oneLine).join("\n")}\n`;
}

function warning(explanation: Explanation): string[] {
  const problems = problemsOf(explanation).length;
  return problems === 0
    ? []
    : [`DO NOT RELY ON THIS: ${counted(problems, "problem")} found in what is stored, see below.`];
}

const labelOf = ({ environment, snapshot }: Explanation): string => `${environment.name}#${snapshot.idx}`;
const runningIn = ({ artifacts, members }: Explanation): ExplainedArtifact[] => [
  ...artifacts.filter(({ exited }) => !exited),
  ...members.flatMap(runningIn),
];

function answer(explanation: Explanation): string {
  const { environment, snapshot, members } = explanation;
  const running = runningIn(explanation);
  const state = snapshot.compliant === null ? null : snapshot.compliant === 1;
  const failing = snapshot.non_compliant_count;
  const size = failing + snapshot.compliant_count + snapshot.unknown_count;
  const allowed = running.filter(
    ({ compliant, verdicts }) => compliant === true && verdicts.some(({ verdict }) => verdict.status !== "COMPLIANT"),
  ).length;
  const why = (): string => {
    if (state === false)
      return `${failing} of ${counted(size, "artifact")} ${failing === 1 ? "is" : "are"} not compliant`;
    if (state === null)
      return environment.type !== "logical"
        ? "no policy was in force"
        : members.length === 0
          ? "no member had a snapshot"
          : "the state of a member was unknown";
    const all =
      size === 0
        ? "nothing was running"
        : size === 1
          ? "the one artifact is compliant"
          : `all ${size} artifacts are compliant`;
    return allowed === 0 ? all : `${all}, ${allowed} of them because of the allowlist`;
  };
  return `${labelOf(explanation)} is ${verdictWord(state)}: ${why()}.`;
}

/** One line for each name under which the fingerprint is shown. */
function answersAbout(explanation: Explanation, fingerprint: string): string[] {
  const own = explanation.artifacts
    .filter(({ row }) => row.fingerprint === fingerprint)
    .map((artifact) => {
      const { row, exited, compliant, verdicts } = artifact;
      const failed = verdicts
        .filter(({ verdict }) => verdict.status !== "COMPLIANT")
        .map(({ version }) => named(version));
      const why = (): string => {
        if (compliant === null) return "no policy was in force";
        if (failed.length === 0) return compliant ? "it satisfies every policy" : "see below";
        return compliant
          ? `it is on the allowlist, which makes up for ${failed.join(" and ")}`
          : `it does not satisfy ${failed.join(" and ")}`;
      };
      return `'${row.name}' in ${labelOf(explanation)} ${exited ? "stopped, and was" : "is"} ${verdictWord(compliant)}: ${why()}.`;
    });
  return [...own, ...explanation.members.flatMap((member) => answersAbout(member, fingerprint))];
}

function head(explanation: Explanation, organization: string): string[] {
  const { environment, snapshot, policies, members } = explanation;
  return [
    `Snapshot ${snapshot.idx} of '${environment.name}' (${environment.type}) in organization '${organization}', made ${time(snapshot.timestamp)} ${cause(explanation)}:`,
    `  ${snapshot.compliant_count} compliant, ${snapshot.non_compliant_count} non-compliant, ${snapshot.unknown_count} unknown.`,
    ...(environment.type === "logical"
      ? [members.length === 0 ? "No member had a snapshot then." : `Members then: ${members.map(labelOf).join(", ")}.`]
      : policies.length === 0
        ? ["No policy was in force."]
        : [
            "Policies in force:",
            ...policies.map(
              (version) =>
                `  ${named(version)}, by ${version.createdBy} at ${time(version.createdAt)}${note(version.comment)}`,
            ),
          ]),
  ];
}

function cause({ snapshot, causedBy }: Explanation): string {
  const by = snapshot.user_name;
  switch (snapshot.cause) {
    case "report":
      return `from a report by ${by}`;
    case "policies":
      return `because ${by} attached or detached policies`;
    case "policy_version":
      return `because of a new policy version by ${by}`;
    case "allowlist":
      return `because ${by} allowlisted an artifact`;
    case "member":
      return `with ${causedBy ? `${causedBy.environment}#${causedBy.index}` : "that of a member"}, caused by ${by}`;
  }
}

function body(explanation: Explanation, fingerprint: string | null): string[] {
  const { artifacts, members } = explanation;
  const chosen = fingerprint === null ? artifacts : artifacts.filter(({ row }) => row.fingerprint === fingerprint);
  const inFull = chosen.filter(
    (artifact) =>
      fingerprint !== null || artifact.problems.length > 0 || (!artifact.exited && artifact.compliant === false),
  );
  const told = new Set(inFull);
  const inShort = chosen.filter((artifact) => !told.has(artifact)).sort((a, b) => Number(a.exited) - Number(b.exited));
  return [
    ...inFull.flatMap((artifact) => ["", ...full(artifact)]),
    ...(inShort.length === 0 ? [] : ["", ...inShort.map(short)]),
    ...members.flatMap((member) => {
      const part = body(member, fingerprint);
      return fingerprint !== null && part.length === 0
        ? []
        : [
            "",
            answer(member),
            ...(member.policies.length === 0 ? [] : [`Policies in force: ${member.policies.map(named).join(", ")}.`]),
            ...part,
          ];
    }),
  ];
}

const title = ({ row, exited, compliant }: ExplainedArtifact): string =>
  `${exited ? "EXITED" : verdictWord(compliant)}  '${row.name}'  ${row.fingerprint || "(fingerprint unknown)"}`;

function short(artifact: ExplainedArtifact): string {
  const { exited, compliant, verdicts, allowlist } = artifact;
  if (exited) return `${title(artifact)}: stopped with this snapshot; was ${verdictWord(compliant)}`;
  if (compliant === null) return `${title(artifact)}: no policy was in force`;
  const failed = verdicts.filter(({ verdict }) => verdict.status !== "COMPLIANT").map(({ version }) => named(version));
  if (failed.length === 0)
    return `${title(artifact)}: satisfies ${verdicts.map(({ version }) => named(version)).join(", ")}`;
  return `${title(artifact)}: does not satisfy ${failed.join(", ")}, but is on the allowlist${allowlist ? `, by ${allowlist.userName} at ${time(allowlist.timestamp)}${note(allowlist.description)}` : ""}`;
}

function full(artifact: ExplainedArtifact): string[] {
  const { row, exited, facts, verdicts, allowlist, problems } = artifact;
  const state = exited
    ? "stopped with this snapshot"
    : `${row.annotation} in snapshot ${row.first_index}, ${counted(row.now, "instance")}`;
  return [
    title(artifact),
    `  running since snapshot ${row.started_index}; ${state}`,
    ...(facts.flows.length === 0
      ? ["  no provenance: it was not reported to any flow"]
      : facts.flows.flatMap((flow) => flowLines(flow, artifact.attestations))),
    ...verdicts.flatMap(({ version, verdict }) => [
      `  ${named(version)}: ${verdict.status}`,
      ...verdict.rules.flatMap((rule) => ruleLines(rule)),
    ]),
    ...(verdicts.length === 0 && problems.length === 0 ? ["  no policy was in force"] : []),
    ...(allowlist
      ? [
          `  on the allowlist (${allowlist.publicId}) as '${allowlist.artifactName}', by ${allowlist.userName} at ${time(allowlist.timestamp)}${note(allowlist.description)}`,
        ]
      : []),
    problems.length === 0 ? "  judged again: the same answer" : "  judged again: NOT THE SAME",
    ...problems.map((problem) => `    ${problem}`),
  ];
}

function flowLines(flow: FlowRecord, attestations: ReadonlyMap<string, ExplainedAttestation>): string[] {
  const as = flow.reference_name === null ? "" : ` as '${flow.reference_name}'`;
  const name = `flow '${flow.flow}'${flow.evaluated_as === undefined ? "" : ` (then called '${flow.evaluated_as}')`}`;
  const where = flow.trail === null ? `${name}, without a trail` : `${name}, trail '${flow.trail}'`;
  const tags = Object.entries(flow.tags).map(([key, value]) => `${key}=${value}`);
  return [
    `  reported to ${where}${as}, commit ${flow.git_commit}: ${flow.state} there${tags.length === 0 ? "" : `; flow tags: ${tags.join(", ")}`}`,
    ...flow.reasons.map((reason) => `    ${reason}`),
    ...flow.candidates.map(({ attestationId, name, type, level, isCompliant, control }) => {
      const record = attestations.get(attestationId);
      const made = record ? `, by ${record.reportedBy} at ${time(record.createdAt)}` : "";
      const version = record?.controlVersion == null ? "" : ` version ${record.controlVersion}`;
      const about = control === null ? "" : ` on control '${control}'${version}`;
      const override = record?.overriddenType == null ? "" : ", an override";
      const evidence = record?.evidenceDigest == null ? "" : `, evidence sha256 ${record.evidenceDigest}`;
      return `    attestation ${attestationId} '${name}', ${type}${about} of the ${level}${override}: ${isCompliant ? "compliant" : "not compliant"}${made}${evidence}`;
    }),
  ];
}

function ruleLines({ rule, satisfied, resolutions }: RuleVerdict): string[] {
  const mark = satisfied === null ? "n/a   " : satisfied ? "ok    " : "FAILED";
  // What no policy file asks for is a rule all the same, and would stand in every policy here.
  if (rule.type !== "attestation" && !rule.definition.required) return [];
  return [
    `    ${mark} ${ruleInWords(rule)}`,
    ...resolutions.map((resolution) => {
      const ids = resolution.attestationIds;
      const by =
        ids.length === 0 ? "" : ` (decided by ${ids.length === 1 ? "attestation" : "attestations"} ${ids.join(", ")})`;
      return `           ${outcomeInWords(rule, resolution)}${by}`;
    }),
  ];
}

/** What was judged again, and how that came out. */
function again(explanation: Explanation): string[] {
  const problems = problemsOf(explanation).length;
  const verdicts = countOf(explanation);
  if (problems === 0)
    return [
      `Judged again from the stored facts and policy versions: ${verdicts === 1 ? "the one verdict is" : `all ${verdicts} verdicts are`} the same.`,
    ];
  return [
    `DAMAGED: judged again from the stored facts and policy versions, not everything is the same; ${counted(problems, "problem")}.`,
  ];
}

const countOf = ({ artifacts, members }: Explanation): number =>
  members.reduce((sum, member) => sum + countOf(member), artifacts.length);
const named = ({ policy, version }: ExplainedVersion): string => `policy '${policy}' version ${version}`;
const note = (text: string): string => (text === "" ? "" : `: "${text}"`);
const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
const time = (seconds: number): string => new Date(seconds * 1000).toISOString();
