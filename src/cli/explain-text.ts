/**
 * Renders an explanation for people: the verdict first, then the snapshot and its policies, then each artifact,
 * non-compliant ones first. Untrusted text never begins a line, and its control characters are escaped.
 */
import { formatVerdict } from "../domain/compliance/replay.ts";
import type { FlowRecord } from "../domain/compliance/environment.ts";
import type { RuleVerdict } from "../domain/policy/evaluate.ts";
import { listCauses } from "../domain/compliance/causes.ts";
import { listRemedies } from "../domain/compliance/remedies.ts";
import { SAME_NAME_MEANING, describeSameName } from "../domain/compliance/same-name.ts";
import { commandFor } from "../domain/compliance/remedy-commands.ts";
import { describeOutcome, describeRule } from "../domain/policy/reasons.ts";
import { problemsOf } from "../store/environments/explanation-types.ts";
import type { ExplainedAttestation } from "../store/attestations/explained-attestations.ts";
import type { ExplainedArtifact, Explanation } from "../store/environments/explanation-types.ts";
import type { ExplainedVersion } from "../store/policies/explained-versions.ts";
import { escapeLine } from "./framework.ts";
import type { Question } from "./explain-question.ts";

/** Renders the whole text, which ends in a line feed. */
export function renderExplanation(explanation: Explanation, question: Question): string {
  const lines = [
    ...(question.fingerprint === null
      ? [describeSnapshot(explanation)]
      : describeFingerprint(explanation, question.fingerprint)),
    ...warningLines(explanation),
    ...headLines(explanation, question.organization),
    ...bodyLines(explanation, question.fingerprint),
    "",
    ...replayLines(explanation),
  ];
  return `${lines.map(escapeLine).join("\n")}\n`;
}

function warningLines(explanation: Explanation): string[] {
  const problems = problemsOf(explanation).length;
  return problems === 0
    ? []
    : [`DO NOT RELY ON THIS: ${counted(problems, "problem")} found in the stored data, see below.`];
}

const labelOf = ({ environment, snapshot }: Explanation): string => `${environment.name}#${snapshot.idx}`;
const listRunning = ({ artifacts, members }: Explanation): ExplainedArtifact[] => [
  ...artifacts.filter(({ exited }) => !exited),
  ...members.flatMap(listRunning),
];

function describeSnapshot(explanation: Explanation): string {
  const { environment, snapshot, members } = explanation;
  const running = listRunning(explanation);
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
  return `${labelOf(explanation)} is ${formatVerdict(state)}: ${why()}.`;
}

/** Returns one line for each artifact name that has the fingerprint. */
function describeFingerprint(explanation: Explanation, fingerprint: string): string[] {
  const own = explanation.artifacts
    .filter(({ row }) => row.fingerprint === fingerprint)
    .map((artifact) => {
      const { row, exited, compliant, verdicts } = artifact;
      const failed = verdicts
        .filter(({ verdict }) => verdict.status !== "COMPLIANT")
        .map(({ version }) => versionNameOf(version));
      const why = (): string => {
        if (compliant === null) return "no policy was in force";
        if (failed.length === 0) return compliant ? "it satisfies every policy" : "see below";
        return compliant
          ? `it is on the allowlist, which overrides ${failed.join(" and ")}`
          : `it does not satisfy ${failed.join(" and ")}`;
      };
      const verb = exited ? "stopped, and was" : "is";
      return `'${row.name}' in ${labelOf(explanation)} ${verb} ${formatVerdict(compliant)}: ${why()}.`;
    });
  return [...own, ...explanation.members.flatMap((member) => describeFingerprint(member, fingerprint))];
}

function headLines(explanation: Explanation, organization: string): string[] {
  const { environment, snapshot, policies, members } = explanation;
  const { compliant_count: compliant, non_compliant_count: failing, unknown_count: unknown } = snapshot;
  const subject = `Snapshot ${snapshot.idx} of '${environment.name}' (${environment.type})`;
  const created = `created ${formatInstant(snapshot.timestamp)} ${describeCause(explanation)}`;
  return [
    `${subject} in organization '${organization}', ${created}:`,
    `  ${compliant} compliant, ${failing} non-compliant, ${unknown} unknown.`,
    ...(environment.type === "logical"
      ? [members.length === 0 ? "No member had a snapshot then." : `Members then: ${members.map(labelOf).join(", ")}.`]
      : policies.length === 0
        ? ["No policy was in force."]
        : [
            "Policies in force:",
            ...policies.map(
              (version) =>
                `  ${versionNameOf(version)}, by ${version.createdBy} at ${formatInstant(version.createdAt)}` +
                quotedNote(version.comment),
            ),
          ]),
  ];
}

function describeCause({ snapshot, causedBy }: Explanation): string {
  const by = snapshot.user_name;
  switch (snapshot.cause) {
    case "report":
      return `from a report by ${by}`;
    case "policies":
      return `because ${by} attached or detached policies`;
    case "policy_version":
      return `because of a new policy version by ${by}`;
    case "allowlist":
      // Only the end of an entry has no user.
      return snapshot.user_id === "" ? "because an allowlist entry ended" : `because ${by} allowlisted an artifact`;
    case "member":
      return `with ${causedBy ? `${causedBy.environment}#${causedBy.index}` : "that of a member"}, caused by ${by}`;
  }
}

function bodyLines(explanation: Explanation, fingerprint: string | null): string[] {
  const { artifacts, members } = explanation;
  const chosen = fingerprint === null ? artifacts : artifacts.filter(({ row }) => row.fingerprint === fingerprint);
  const inFull = chosen.filter(
    (artifact) =>
      fingerprint !== null || artifact.problems.length > 0 || (!artifact.exited && artifact.compliant === false),
  );
  const detailed = new Set(inFull);
  const inShort = chosen
    .filter((artifact) => !detailed.has(artifact))
    .sort((a, b) => Number(a.exited) - Number(b.exited));
  return [
    ...inFull.flatMap((artifact) => ["", ...fullLines(artifact)]),
    ...(inShort.length === 0 ? [] : ["", ...inShort.map(shortLine)]),
    ...members.flatMap((member) => {
      const part = bodyLines(member, fingerprint);
      return fingerprint !== null && part.length === 0
        ? []
        : [
            "",
            describeSnapshot(member),
            ...(member.policies.length === 0
              ? []
              : [`Policies in force: ${member.policies.map(versionNameOf).join(", ")}.`]),
            ...part,
          ];
    }),
  ];
}

const titleOf = ({ row, exited, compliant }: ExplainedArtifact): string =>
  `${exited ? "EXITED" : formatVerdict(compliant)}  '${row.name}'  ${row.fingerprint || "(fingerprint unknown)"}`;

function shortLine(artifact: ExplainedArtifact): string {
  const { exited, compliant, verdicts, allowlist } = artifact;
  if (exited) return `${titleOf(artifact)}: stopped with this snapshot; was ${formatVerdict(compliant)}`;
  if (compliant === null) return `${titleOf(artifact)}: no policy was in force`;
  const failed = verdicts
    .filter(({ verdict }) => verdict.status !== "COMPLIANT")
    .map(({ version }) => versionNameOf(version));
  if (failed.length === 0)
    return `${titleOf(artifact)}: satisfies ${verdicts.map(({ version }) => versionNameOf(version)).join(", ")}`;
  const added = allowlist ? `, ${describeAllowlisting(allowlist)}` : "";
  return `${titleOf(artifact)}: does not satisfy ${failed.join(", ")}, but is on the allowlist${added}`;
}

const describeAllowlisting = (entry: NonNullable<ExplainedArtifact["allowlist"]>): string =>
  `by ${entry.userName} at ${formatInstant(entry.timestamp)}` +
  `${entry.expiresAt === null ? "" : ` until ${formatInstant(entry.expiresAt)}`}${quotedNote(entry.description)}`;

function fullLines(artifact: ExplainedArtifact): string[] {
  const { row, exited, facts, verdicts, allowlist, problems } = artifact;
  const state = exited
    ? "stopped with this snapshot"
    : `${row.annotation} in snapshot ${row.first_index}, ${counted(row.now, "instance")}`;
  return [
    titleOf(artifact),
    `  running since snapshot ${row.started_index}; ${state}`,
    ...(facts.flows.length === 0
      ? ["  no provenance: it was not reported to any flow", ...sameNameLines(artifact)]
      : facts.flows.flatMap((flow) => flowLines(flow, artifact.attestations))),
    ...verdicts.flatMap(({ version, verdict }) => [
      `  ${versionNameOf(version)}: ${verdict.status}`,
      ...verdict.rules.flatMap((rule) => ruleLines(rule)),
    ]),
    ...(verdicts.length === 0 && problems.length === 0 ? ["  no policy was in force"] : []),
    ...causeLines(artifact),
    ...remedyLines(artifact),
    ...(allowlist
      ? [
          `  on the allowlist (${allowlist.publicId}) as '${allowlist.artifactName}', ` +
            describeAllowlisting(allowlist),
        ]
      : []),
    problems.length === 0 ? "  re-evaluated: the same verdict" : "  re-evaluated: NOT THE SAME",
    ...problems.map((problem) => `    ${problem}`),
  ];
}

const sameNameLines = ({ sameName }: ExplainedArtifact): string[] =>
  sameName === null ? [] : [`    ${describeSameName(sameName)}`, `    ${SAME_NAME_MEANING}`];

/** Why the policies refuse it: each cause once, however many rules fail because of it. */
function causeLines({ verdicts, facts }: ExplainedArtifact): string[] {
  const causes = listCauses(
    verdicts.map(({ verdict }) => verdict),
    facts.flows,
  );
  return causes.length === 0 ? [] : ["  why:", ...causes.map(({ words }) => `    ${words}`)];
}

/** What would make it compliant, with the command that delivers what is missing. */
function remedyLines({ row, exited, verdicts, facts, allowlist }: ExplainedArtifact): string[] {
  if (exited) return [];
  const remedies = verdicts
    .flatMap(({ verdict }) => verdict.rules)
    .flatMap((rule) => listRemedies(rule, { flows: facts.flows, fingerprint: row.fingerprint }))
    .filter(({ kind }) => kind !== "allowlist" || (row.fingerprint !== "" && allowlist === null));
  const byWords = new Map(remedies.map((remedy) => [remedy.words, remedy]));
  const inOrder = [...byWords.values()].sort((a, b) => Number(a.kind === "allowlist") - Number(b.kind === "allowlist"));
  if (inOrder.length === 0) return [];
  return [
    "  what would make it compliant:",
    ...inOrder.flatMap((remedy) => {
      const command = commandFor(remedy, row.name);
      return [`    ${remedy.words}`, ...(command?.split("\n").map((line) => `      ${line}`) ?? [])];
    }),
  ];
}

function flowLines(flow: FlowRecord, attestations: ReadonlyMap<string, ExplainedAttestation>): string[] {
  const as = flow.reference_name === null ? "" : ` as '${flow.reference_name}'`;
  const name = `flow '${flow.flow}'${flow.evaluated_as === undefined ? "" : ` (then called '${flow.evaluated_as}')`}`;
  const where = flow.trail === null ? `${name}, without a trail` : `${name}, trail '${flow.trail}'`;
  const tags = Object.entries(flow.tags).map(([key, value]) => `${key}=${value}`);
  const suffix = tags.length === 0 ? "" : `; flow tags: ${tags.join(", ")}`;
  const commit = flow.git_commit === null ? "no commit" : `commit ${flow.git_commit}`;
  return [
    `  reported to ${where}${as}, ${commit}: ${flow.state} there${suffix}`,
    ...flow.reasons.map((reason) => `    ${reason}`),
    ...flow.candidates.map(({ attestationId, name, type, level, isCompliant, control }) => {
      const record = attestations.get(attestationId);
      const origin = record ? `, by ${record.reportedBy} at ${formatInstant(record.createdAt)}` : "";
      const version = record?.controlVersion == null ? "" : ` version ${record.controlVersion}`;
      const about = control === null ? "" : ` on control '${control}'${version}`;
      const override = record?.overriddenType == null ? "" : ", an override";
      const evidence = record?.evidenceDigest == null ? "" : `, evidence sha256 ${record.evidenceDigest}`;
      const subject = `attestation ${attestationId} '${name}', ${type}${about} of the ${level}${override}`;
      return `    ${subject}: ${isCompliant ? "compliant" : "not compliant"}${origin}${evidence}`;
    }),
  ];
}

function ruleLines({ rule, satisfied, resolutions }: RuleVerdict): string[] {
  const mark = satisfied === null ? "n/a   " : satisfied ? "ok    " : "FAILED";
  // Rules that the policy does not require exist too, and would otherwise be listed for every policy.
  if (rule.type !== "attestation" && !rule.definition.required) return [];
  return [
    `    ${mark} ${describeRule(rule)}`,
    ...resolutions.map((resolution) => {
      const ids = resolution.attestationIds;
      const by = ids.length === 0 ? "" : ` (by ${ids.length === 1 ? "attestation" : "attestations"} ${ids.join(", ")})`;
      return `           ${describeOutcome(rule, resolution)}${by}`;
    }),
  ];
}

/** Summarizes the re-evaluation. */
function replayLines(explanation: Explanation): string[] {
  const problems = problemsOf(explanation).length;
  const verdicts = countVerdicts(explanation);
  const basis = "from the stored facts and policy versions";
  if (problems === 0) {
    const result = verdicts === 1 ? "the one verdict is" : `all ${verdicts} verdicts are`;
    return [`Re-evaluated ${basis}: ${result} the same.`];
  }
  return [`DAMAGED: re-evaluated ${basis}, not all verdicts are the same; ${counted(problems, "problem")}.`];
}

const countVerdicts = ({ artifacts, members }: Explanation): number =>
  members.reduce((sum, member) => sum + countVerdicts(member), artifacts.length);
const versionNameOf = ({ policy, version }: ExplainedVersion): string => `policy '${policy}' version ${version}`;
const quotedNote = (text: string): string => (text === "" ? "" : `: "${text}"`);
const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
const formatInstant = (seconds: number): string => new Date(seconds * 1000).toISOString();
