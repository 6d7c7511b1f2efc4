/**
 * `assay explain`: why a snapshot says what it says, with its verdicts judged again. Reads only, beside a running
 * server.
 */
import { systemSources } from "../../server/app.ts";
import { FINGERPRINT_PREFIX, matches } from "../../domain/names.ts";
import { nearestNames } from "../../domain/text/near-names.ts";
import { parseSnapshotExpression, resolvePosition } from "../../domain/snapshot/expression.ts";
import { AppError } from "../../errors.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { problemsOf } from "../../store/environments/explanation-types.ts";
import type { ExplainedArtifact, Explanation } from "../../store/environments/explanation-types.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { explanationJson } from "../explain-json.ts";
import { explanationText } from "../explain-text.ts";
import { commandFailure, EXIT, oneLine, reportProblems } from "../framework.ts";
import type { Command } from "../framework.ts";
import type { Question } from "../explain-question.ts";

export const explain: Command = {
  name: "explain",
  summary: "Explain a snapshot: every verdict, what decided it, and whether it is found again",
  usage: "ENV[#N] [FINGERPRINT] [--org NAME] --data DIRECTORY",
  details: [
    "ENV alone is its latest snapshot; ENV#N the one of that number, ENV#-1 the latest, ENV~N the one N before it,",
    "ENV@{2026-01-31T12:00:00} (UTC), ENV@{3.days.ago} and ENV@{now} the one in force then.",
    "FINGERPRINT, or 5 or more of its first characters, explains that artifact alone, and as thoroughly when it is compliant.",
    "Every verdict is judged again from the facts and policy versions stored with it. Exit code 5 when one of them comes out",
    "differently or cannot be read. Changes nothing, and works while the server runs.",
  ],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Organization (default the only one there is)" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { least: 1, most: 2, names: ["ENV", "FINGERPRINT"] },
  check({ positionals: [expression, fingerprint] }) {
    const problems: string[] = [];
    if (expression !== undefined && !parseSnapshotExpression(expression, systemSources.now())) {
      problems.push(`${shown(expression)} is no snapshot: write ENV, ENV#N, ENV~N or ENV@{TIME}`);
    }
    if (fingerprint !== undefined && !matches(FINGERPRINT_PREFIX, fingerprint)) {
      problems.push(`${shown(fingerprint)} is no fingerprint: give 5 to 64 characters of 0-9 and a-f`);
    }
    return problems;
  },
  async run(args, io) {
    const [expression = "", fingerprint = null] = args.positionals;
    const now = systemSources.now();
    const place = parseSnapshotExpression(expression, now);
    if (!place) throw new Error("the check of the command line let an expression pass that is none");
    const directory = await dataDirectory(args, io);
    const json = args.switches.has("json");
    const { text, damage } = withData(directory, ({ db, store }) =>
      // One transaction, so that everything is of one moment while a server writes.
      db.transaction(() => {
        const organization = organizationOf(store, args.texts.get("org")?.[0] ?? null);
        const environment = environmentOf(store, organization, place.environment);
        const index = resolvePosition(place.position, environment.snapshot_count, (at) =>
          store.snapshots.findIndexAt(environment, at, now),
        );
        if (index < 1 || index > environment.snapshot_count)
          throw outOfRange(organization, environment, expression, place.environment, index);
        const evaluated = store.explanations.explain(environment, index);
        if (!evaluated)
          throw commandFailure(`snapshot ${environment.name}#${index} is gone from the database`, EXIT.damaged);
        const explanation = store.explanations.withPresentFlowNames(evaluated);
        const question: Question = {
          organization: organization.name,
          expression,
          fingerprint: fingerprint === null ? null : meant(explanation, fingerprint),
        };
        return {
          text: json
            ? `${JSON.stringify(explanationJson(explanation, question))}\n`
            : explanationText(explanation, question),
          damage: problemsOf(explanation),
        };
      })(),
    );
    io.stdout(text);
    if (damage.length === 0) return EXIT.done;
    reportProblems(
      io,
      [
        ...damage.slice(0, MOST_PROBLEMS).map(oneLine),
        `${damage.length} ${damage.length === 1 ? "problem" : "problems"} found: do not rely on this snapshot before the cause is known`,
      ],
      json,
    );
    return EXIT.damaged;
  },
};

/** On the terminal; --json has all of them. */
const MOST_PROBLEMS = 20;

const shown = (word: string): string => JSON.stringify(word.slice(0, 100));

function organizationOf(store: Store, name: string | null): OrganizationRow {
  const all = store.organizations.list();
  const names = all.map((organization) => organization.name);
  if (name === null) {
    const [only] = all;
    if (only && all.length === 1) return only;
    throw commandFailure(
      all.length === 0
        ? "there is no organization yet; see assay help init"
        : `there are several organizations: give --org ${names.slice(0, 10).join(" or ")}`,
      EXIT.usage,
    );
  }
  const found = all.find((organization) => organization.name === name);
  if (!found) throw commandFailure([`there is no organization ${shown(name)}`, ...hint(name, names)]);
  return found;
}

function environmentOf(store: Store, organization: OrganizationRow, name: string): EnvironmentRow {
  try {
    return store.environments.require(organization, name);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw commandFailure([error.message, ...hint(name, store.explanations.listEnvironmentNames(organization.id))]);
  }
}

function hint(word: string, names: readonly string[]): string[] {
  const near = nearestNames(word, names);
  if (near.length > 0) return [`did you mean ${near.join(" or ")}?`];
  return names.length === 0 ? [] : [`there are: ${names.slice(0, 20).join(", ")}${names.length > 20 ? ", ..." : ""}`];
}

/** With the text of messages 10. */
function outOfRange(
  organization: OrganizationRow,
  { snapshot_count }: EnvironmentRow,
  expression: string,
  name: string,
  index: number,
): Error {
  const text = `Org: '${organization.name}'. Snapshot '${expression}' resolves to '${name}#${index}'. len(snapshots) == ${snapshot_count}. Indexes are 1-based`;
  return commandFailure([
    text,
    snapshot_count === 0
      ? "nothing was reported there yet"
      : `the first snapshot is ${name}#1, the latest ${name}#${snapshot_count}`,
  ]);
}

/**
 * The one fingerprint in the snapshot that begins so. @throws a command failure when there is none, or more than one.
 */
function meant(explanation: Explanation, prefix: string): string {
  const at = `${explanation.environment.name}#${explanation.snapshot.idx}`;
  const found = [
    ...new Set(
      everything(explanation)
        .map(({ row }) => row.fingerprint)
        .filter((fingerprint) => fingerprint.startsWith(prefix)),
    ),
  ].sort();
  const [only] = found;
  if (only === undefined)
    throw commandFailure([
      `${at} shows no artifact whose fingerprint begins with ${prefix}`,
      `assay explain ${at} lists what it shows`,
    ]);
  if (found.length > 1)
    throw commandFailure([
      `${prefix} is ambiguous in ${at}; give more of one of these:`,
      ...found.slice(0, 10),
      ...(found.length > 10 ? [`and ${found.length - 10} more`] : []),
    ]);
  return only;
}

const everything = ({ artifacts, members }: Explanation): ExplainedArtifact[] => [
  ...artifacts,
  ...members.flatMap(everything),
];
