/** Why something is not compliant, on one line that begins with what decided; names in bold. */
import { groupCauses, namedSubjects, separatorBefore } from "../../domain/compliance/cause-words.ts";
import { plural } from "./state.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";

type Cause = { subject: string; text: string };
/** As operations answer; a stored reason of damaged data stands for causes that cannot be read. */
type WithCauses = {
  causes?: readonly Cause[] | undefined;
  further_causes?: number | undefined;
  reasons?: readonly string[] | undefined;
};

/** Between the parts of a line: it ends a line that is broken there, and begins none. */
export const SEPARATOR = html`\u00a0<span class="muted">·</span> `;

/** A name that decided: never cut, and broken only where it is longer than the line. */
export const causeName = (name: string): Html => html`<b class="cause-name"><bdi>${name}</bdi></b>`;

/**
 * `snyk-container fails: 1 high · sonar-gate is missing`; null without causes and reasons.
 * @param after what follows on the line, such as the policy
 */
export function causesLine(
  { causes = [], further_causes: further = 0, reasons = [] }: WithCauses,
  after: Value = null,
): Html | null {
  const groups: Value[] = groupCauses(causes).map((group) => groupOf(group));
  const [reason] = reasons;
  if (groups.length === 0 && reason !== undefined) groups.push(reason);
  if (groups.length === 0) return null;
  if (further > 0) groups.push(html`<span class="muted">${plural(further, "more reason")}</span>`);
  const separated = groups.map((group, index) => html`${index > 0 && SEPARATOR}${group}`);
  return html`<div class="causes">${separated}${after && html`${SEPARATOR}<span class="muted">${after}</span>`}</div>`;
}

function groupOf({ subjects, rest }: { subjects: readonly string[]; rest: string }): Html {
  const { shown, more } = namedSubjects(subjects);
  const all = [...shown.map(causeName), ...(more > 0 ? [html`${more} more`] : [])];
  return html`${all.map((one, index) => html`${separatorBefore(index, all.length)}${one}`)}${rest}`;
}

/** A cause as a sentence. @param link makes the name a link */
export const causeSentence = ({ subject, text }: Cause, link: (name: Html) => Html = (name) => name): Html =>
  html`${subject !== "" && link(causeName(subject))}${text.slice(subject.length)}`;
