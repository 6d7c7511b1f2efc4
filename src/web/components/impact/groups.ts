/** What becomes of the logical environments that include an environment of a previewed change. */
import type { previewChange } from "../../../api/policies/change-preview.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { icon } from "../icon.ts";
import { table } from "../layout.ts";
import { formatNumber, plural, turned } from "../state.ts";

type LogicalEnvironment = AnswerOf<typeof previewChange>["logical_environments"][number];

/** Logical environments that are shown. */
const MAX_GROUPS = 20;

const isTurning = ({ before, after }: LogicalEnvironment): boolean => before !== after;

/** The logical environments that would turn because a member does; null where none would. */
export function groupTable({ to }: Visit, groups: readonly LogicalEnvironment[]): Html | null {
  const turning = groups.filter(isTurning).slice(0, MAX_GROUPS);
  if (turning.length === 0) return null;
  return table({
    caption: "Logical environments whose verdict would change",
    columns: [{ text: "Logical environment" }, { text: "Verdict", className: "w-flip" }, { text: "Why" }],
    rows: turning.map((group) => groupRow(to.environment(group.environment), group)),
  });
}

const groupRow = (href: string, group: LogicalEnvironment): Html =>
  html`<tr><td class="lead"><div class="name-cell">${icon("server")}<div><a class="t-name"
href="${href}"><bdi>${group.environment}</bdi></a></div></div></td><td>${turned(group)}</td><td
class="fill">${whyGroup(group)}</td></tr>`;

/** `production-eu and 2 more would be non-compliant`. */
function whyGroup({ after, deciding, further_deciding: further, members }: LogicalEnvironment): Value {
  if (after === "COMPLIANT")
    return html`<span class="muted">${members === 1 ? "its only member" : "every member"} would be compliant</span>`;
  const [first, ...others] = deciding;
  const word = after === "UNKNOWN" ? "unknown" : "non-compliant";
  const more = others.length + further;
  if (!first) return `${plural(more, "member")} would be ${word}`;
  return html`<bdi>${first.environment}</bdi>${more > 0 && ` and ${formatNumber(more)} more`} would be ${word}`;
}

/** What the table does not say: how many logical environments keep their verdict, and which. */
export function groupNotes(groups: readonly LogicalEnvironment[]): (Value | false)[] {
  const [first, ...others] = groups.filter((group) => !isTurning(group));
  const left = groups.filter(isTurning).length - MAX_GROUPS;
  return [
    left > 0 && `${plural(left, "more logical environment")} would change.`,
    first !== undefined &&
      (others.length === 0
        ? html`The logical environment <b><bdi>${first.environment}</bdi></b> keeps its verdict.`
        : `${plural(others.length + 1, "logical environment")} keep their verdicts.`),
  ];
}
