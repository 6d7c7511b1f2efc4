/** `assay explain`: explains and re-evaluates the verdicts of a snapshot. Read-only, also beside a running server. */
import { memoize } from "../../contract/memoize.ts";
import { writeExplanation } from "../../contract/present-explanation.ts";
import { FINGERPRINT_PREFIX, matches } from "../../domain/names.ts";
import { locateRules } from "../../domain/policy/lines.ts";
import { findNearestNames } from "../../domain/text/near-names.ts";
import { parseSnapshotExpression, resolvePosition } from "../../domain/snapshot/expression.ts";
import { AppError } from "../../errors.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { problemsOf } from "../../store/environments/explanation-types.ts";
import type { ExplainedArtifact, Explanation } from "../../store/environments/explanation-types.ts";
import type { StoreReader } from "../../store/reader.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { EVIDENCE_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { renderExplanation } from "../explain-text.ts";
import { CommandError, EXIT, escapeLine, reportProblems } from "../framework.ts";
import type { Command } from "../framework.ts";
import { explainEvaluation, parseEvaluation } from "../explain-evaluation.ts";
import type { Question } from "../explain-question.ts";
import { systemSources } from "../../clock.ts";

export const explain: Command = {
  name: "explain",
  summary: "Explain and re-evaluate a snapshot, or an evaluation of a Rego policy",
  usage: "(ENV[#N] [FINGERPRINT] | evaluation ID | decision ID [--replay]) [--org NAME] [--data DIRECTORY]",
  details: [
    "ENV selects the latest snapshot of an environment, ENV#N the snapshot with number N, ENV#-1 the latest, " +
      "ENV~N the Nth before the latest, and ENV@{2026-01-31T12:00:00} (UTC), ENV@{3.days.ago} or ENV@{now} the " +
      "snapshot at that time.",
    "FINGERPRINT, or at least its first 5 characters, limits the output to one artifact, in full detail even if " +
      "compliant.",
    "Re-evaluates every verdict from the facts and policy versions stored with it. Exit code 5 if a verdict differs " +
      "or cannot be read. Changes nothing, and works while the server runs.",
    "evaluation ID shows what a Rego policy decided about which trails, and decision ID the evaluation that made a " +
      "decision. --replay evaluates the stored policy on the stored input again: exit code 1 if the verdict differs.",
  ],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Organization; optional if only one has the environment" },
    replay: { kind: "switch", description: "Evaluate the stored policy on the stored input again, and compare" },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 2, names: ["ENV", "FINGERPRINT"] },
  check({ positionals, switches }) {
    if (parseEvaluation(positionals)) return [];
    const [expression, fingerprint] = positionals;
    const problems: string[] = [];
    if (switches.has("replay")) problems.push("--replay is for evaluations and decisions of Rego policies");
    if (expression !== undefined && !parseSnapshotExpression(expression, systemSources.now())) {
      problems.push(`${quote(expression)} is not a snapshot expression: give ENV, ENV#N, ENV~N or ENV@{TIME}`);
    }
    if (fingerprint !== undefined && !matches(FINGERPRINT_PREFIX, fingerprint)) {
      problems.push(`${quote(fingerprint)} is not a fingerprint: give 5 to 64 characters of 0-9 and a-f`);
    }
    return problems;
  },
  async run(args, io) {
    const about = parseEvaluation(args.positionals);
    if (about) return explainEvaluation(args, io, about);
    const [expression = "", fingerprint = null] = args.positionals;
    const now = systemSources.now();
    const place = parseSnapshotExpression(expression, now);
    if (!place) throw new Error("the snapshot expression passed the check of the command line but is invalid");
    const directory = await resolveDataDirectory(args, io);
    const json = args.switches.has("json");
    const { text, damage } = withData(directory, ({ db, store }) =>
      // One transaction, for a consistent snapshot while a server writes.
      db.transaction(() => {
        const organization = selectOrganization(store, args.texts.get("org")?.[0] ?? null, [place.environment]);
        const environment = requireEnvironment(store, organization, place.environment);
        const index = resolvePosition(place.position, environment.snapshot_count, (at) =>
          store.snapshots.findIndexAt(environment, at, now),
        );
        if (index < 1 || index > environment.snapshot_count)
          throw outOfRangeError(organization, environment, { expression, name: place.environment, index });
        const evaluated = store.explanations.explain(environment, index);
        if (!evaluated)
          throw new CommandError(`snapshot ${environment.name}#${index} is missing in the database`, EXIT.damaged);
        const explanation = store.explanations.withPresentFlowNames(evaluated);
        const question: Question = {
          organization: organization.name,
          expression,
          fingerprint: fingerprint === null ? null : resolveFingerprint(explanation, fingerprint),
        };
        return {
          text: json ? renderJson(store, explanation, question) : renderExplanation(explanation, question),
          damage: problemsOf(explanation),
        };
      })(),
    );
    io.stdout(text);
    if (damage.length === 0) return EXIT.done;
    const count = `${damage.length} ${damage.length === 1 ? "problem" : "problems"} found`;
    reportProblems(
      io,
      [
        ...damage.slice(0, MAX_SHOWN_PROBLEMS).map(escapeLine),
        `${count}: do not rely on this snapshot until the cause is known; see assay help verify`,
      ],
      { json },
    );
    return EXIT.damaged;
  },
};

/** The object that contract/present-explanation.ts describes, in one line. */
function renderJson({ policies }: StoreReader, explanation: Explanation, question: Question): string {
  const pieces = writeExplanation(
    explanation,
    { ...question, selection: null },
    {
      getText: policies.getText,
      maxChars: Number.POSITIVE_INFINITY,
      getLines: memoize((id) => policies.findLines(id) ?? locateRules(policies.getText(id))),
    },
  );
  return `${[...pieces].join("")}\n`;
}

/** Problems on the terminal; --json lists all of them. */
const MAX_SHOWN_PROBLEMS = 20;

const quote = (word: string): string => JSON.stringify(word.slice(0, 100));

/**
 * The organization with this name; for null, the only one, or the only one that has all of these environments.
 * @throws CommandError
 */
export function selectOrganization(
  store: StoreReader,
  name: string | null,
  environments: readonly string[],
): OrganizationRow {
  const all = store.organizations.list();
  const names = all.map((organization) => organization.name);
  if (name === null) {
    const having = all.filter(({ id }) => environments.every((one) => store.environments.find(id, one) !== null));
    const [only] = all.length === 1 ? all : having;
    const unknown = environments.find((one) => all.every(({ id }) => store.environments.find(id, one) === null));
    if (all.length > 1 && unknown !== undefined)
      throw new CommandError([
        `no organization has an environment ${quote(unknown)}`,
        ...suggestNames(unknown, [...new Set(all.flatMap(({ id }) => store.explanations.listEnvironmentNames(id)))]),
      ]);
    if (only && (all.length === 1 || having.length === 1)) return only;
    throw new CommandError(
      all.length === 0
        ? "there is no organization yet; see assay help init"
        : `there are several organizations: give --org ${names.slice(0, 10).join(" or ")}`,
      EXIT.usage,
    );
  }
  const found = all.find((organization) => organization.name === name);
  if (!found) throw new CommandError([`there is no organization ${quote(name)}`, ...suggestNames(name, names)]);
  return found;
}

/** The environment with this name or former name. @throws CommandError that suggests similar names */
export function requireEnvironment(store: StoreReader, organization: OrganizationRow, name: string): EnvironmentRow {
  try {
    return store.environments.require(organization, name);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new CommandError([
      error.message,
      ...suggestNames(name, store.explanations.listEnvironmentNames(organization.id)),
    ]);
  }
}

export function suggestNames(word: string, names: readonly string[]): string[] {
  const near = findNearestNames(word, names);
  if (near.length > 0) return [`did you mean ${near.join(" or ")}?`];
  return names.length === 0 ? [] : [`known are: ${names.slice(0, 20).join(", ")}${names.length > 20 ? ", ..." : ""}`];
}

/** Uses the fixed text of messages 10. */
function outOfRangeError(
  organization: OrganizationRow,
  { snapshot_count }: EnvironmentRow,
  { expression, name, index }: { expression: string; name: string; index: number },
): CommandError {
  const text =
    `Org: '${organization.name}'. Snapshot '${expression}' resolves to '${name}#${index}'. ` +
    `len(snapshots) == ${snapshot_count}. Indexes are 1-based`;
  return new CommandError([
    text,
    snapshot_count === 0
      ? "the environment has no reports yet"
      : `the first snapshot is ${name}#1, the latest ${name}#${snapshot_count}`,
  ]);
}

/** Completes a fingerprint prefix. @throws CommandError when it matches no artifact of the snapshot, or several */
function resolveFingerprint(explanation: Explanation, prefix: string): string {
  const at = `${explanation.environment.name}#${explanation.snapshot.idx}`;
  const found = [
    ...new Set(
      listAllArtifacts(explanation)
        .map(({ row }) => row.fingerprint)
        .filter((fingerprint) => fingerprint.startsWith(prefix)),
    ),
  ].sort();
  const [only] = found;
  if (only === undefined)
    throw new CommandError([
      `${at} has no artifact with a fingerprint that begins with ${prefix}`,
      `assay explain ${at} lists its artifacts`,
    ]);
  if (found.length > 1)
    throw new CommandError([
      `${prefix} is ambiguous in ${at}; give more of one of these:`,
      ...found.slice(0, 10),
      ...(found.length > 10 ? [`and ${found.length - 10} more`] : []),
    ]);
  return only;
}

const listAllArtifacts = ({ artifacts, members }: Explanation): ExplainedArtifact[] => [
  ...artifacts,
  ...members.flatMap(listAllArtifacts),
];
