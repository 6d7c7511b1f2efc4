/** The paragraph of a binder that an auditor can quote: figures with their period, and nothing that they do not say. */
import { shareOf } from "../../domain/percent.ts";
import { formatMinute } from "../../domain/time.ts";
import type { BinderKind } from "../../store/environments/history/binder-scope.ts";
import type { FiguresValue } from "./shapes.ts";

type Summarized = {
  kind: BinderKind;
  name: string;
  from: number;
  to: number;
  figures: FiguresValue;
  allowances: number;
};

/** `From 2026-07-01 00:00 UTC to 2026-09-30 23:59 UTC, 58 of 60 releases (96.7 %) ...` */
export function summarize({ kind, ...rest }: Summarized): string {
  const period = `From ${formatMinute(rest.from)} to ${formatMinute(rest.to)}`;
  return `${period}, ${DESCRIBE[kind](rest)}`;
}

const figure = (count: number | null | undefined): string => (count ?? 0).toLocaleString("en-US");
/** `1 trail`, `10,000 trails`. */
const counted = (count: number, noun: string): string => `${figure(count)} ${noun}${count === 1 ? "" : "s"}`;
const share = (part: number, total: number): string => `${shareOf(part, total)} %`;
/** `was` or `were`. */
const be = (count: number): string => (count === 1 ? "was" : "were");
const entries = (count: number): string =>
  `${figure(count)} allowlist ${count === 1 ? "entry" : "entries"} ${be(count)} in force.`;
/** The verdicts at the starts in the scope. */
const verdicts = ({ starts_compliant: good, starts_allowed: allowed, starts_not_compliant: bad }: FiguresValue) =>
  `${figure(good)} compliant, ${figure(allowed)} allowed by an allowlist entry, ` +
  `and ${figure(bad)} not compliant or unknown.`;

const DESCRIBE: Record<BinderKind, (summarized: Omit<Summarized, "kind">) => string> = {
  control({ name, figures, allowances }) {
    const [releases, decided] = [figures.releases ?? 0, figures.releases_with_decision ?? 0];
    const [allowed, without] = [figures.releases_allowed ?? 0, figures.releases_without_decision ?? 0];
    const covered =
      releases === 0
        ? `no artifact started where a policy required a decision for ${name}.`
        : `${figure(decided)} of ${counted(releases, "release")} (${share(decided, releases)}) had the decision for ` +
          `${name} that the policies required when they started; ${figure(allowed)} ${be(allowed)} allowed by an ` +
          `allowlist entry without it, and ${figure(without)} had neither.`;
    const [all, approved, refused] = [figures.decisions ?? 0, figures.approved ?? 0, figures.refused ?? 0];
    const outcome = `${figure(approved)} approved and ${figure(refused)} refused`;
    const made = `${counted(all, "decision")} ${be(all)} made: ${outcome}.`;
    return `${covered} ${made} ${entries(allowances)}`;
  },
  environment({ name, figures, allowances }) {
    const [good, bad] = [figures.seconds_compliant ?? 0, figures.seconds_non_compliant ?? 0];
    const unknown = figures.seconds_unknown ?? 0;
    const length = good + bad + unknown;
    const starts = figures.starts ?? 0;
    const time =
      `${name} was compliant for ${share(good, length)} of the time, non-compliant for ${share(bad, length)}, and ` +
      `unknown for ${share(unknown, length)}.`;
    const started = `${counted(starts, "artifact")} started: ${verdicts(figures)}`;
    return `${time} ${started} ${entries(allowances)}`;
  },
  flow({ name, figures, allowances }) {
    const trails = figures.trails ?? 0;
    const [good, bad] = [figures.trails_compliant ?? 0, figures.trails_not_compliant ?? 0];
    const starts = figures.starts ?? 0;
    const begun =
      `${counted(trails, "trail")} began in flow ${name}: ${figure(good)} ${be(good)} compliant and ` +
      `${figure(bad)} ${be(bad)} not when this binder was made.`;
    const started = `Artifacts of the flow started ${counted(starts, "time")}: ${verdicts(figures)}`;
    return `${begun} ${started} ${entries(allowances)}`;
  },
};
