/** An environment as of a moment in the past. */
import { getPastEnvironment } from "../../../api/environments/past.ts";
import { icon } from "../../components/icon.ts";
import { verdictBar } from "../../components/charts.ts";
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { card, empty, nameCell, nameList, padded } from "../../components/layout.ts";
import type { TableColumn } from "../../components/layout.ts";
import { badge, stateOfVerdict, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { AppError } from "../../../errors.ts";
import { notThen } from "../../page/past-notes.ts";
import type { Content, Visit } from "../../page/page.ts";
import type { AnswerOf } from "../../../http/in-process.ts";

export type PastEnvironment = AnswerOf<typeof getPastEnvironment>;

/** null for an environment that did not exist then. */
export async function readPast({ call, moment }: Visit, name: string): Promise<PastEnvironment | null> {
  try {
    return await call(getPastEnvironment, { params: { env_name: name }, query: { at: moment?.text ?? "" } });
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return null;
    throw error;
  }
}

/** The page of an environment that did not exist then. */
export const environmentNotThen = (visit: Visit, name: string): Content =>
  notThen(visit, {
    title: name,
    text: `${name} did not exist then: it was created later, or had been archived.`,
    section: "environments",
    crumbs: [{ text: "Environments", href: visit.to.environments() }],
  });

export const noSnapshotThen = ({ moment }: Pick<Visit, "moment">): Html =>
  empty({
    icon: "history",
    title: "There was no snapshot yet",
    text: moment && "Nothing had been reported to this environment at that moment, so it had no verdict.",
  });

/** The policy versions of the snapshot in force. */
export function policiesThen({ to }: Visit, { policies, snapshot_index: index }: PastEnvironment): Html {
  const rows = policies.map(({ name, version }) =>
    version === null
      ? html`<li>${icon("alert")}<div class="grow">${name}</div></li>`
      : html`<li>${icon("law")}<div class="grow"><a class="name"
href="${to.policy(name)}"><bdi>${name}</bdi></a></div><span class="tag">v${version}</span></li>`,
  );
  const none =
    index === 0
      ? "There was no snapshot yet, so no policy was evaluated."
      : "No policy was attached, so the state was unknown.";
  return card({
    id: "h-pol-then",
    title: "Policies in force then",
    note: index > 0 && `as evaluated in #${index}`,
    body: rows.length > 0 ? html`<ul class="rows">${rows}</ul>` : padded(html`<p class="muted">${none}</p>`),
  });
}

/** Of lists of environments as of a moment. */
export const PAST_COLUMNS: readonly TableColumn[] = [
  { text: "Name" },
  { text: "State then", className: "w-st" },
  { text: "Ran", className: "w-seg" },
  { text: "Snapshot", isRight: true },
  { text: "Changed", className: "w-time" },
];

/** @param options.isShort without the names of the policies */
export function pastEnvironmentRow(
  { to, now }: Visit,
  environment: PastEnvironment,
  { isShort = false }: { isShort?: boolean } = {},
): Html {
  const { name, type, policies, snapshot_index: index, last_changed_at: changed } = environment;
  const { compliant_count: compliant, non_compliant_count: failing, unknown_count: unknown } = environment;
  const inForce = nameList(
    policies.map(({ name: policy, version }) => html`${policy}${version !== null && ` v${version}`}`),
  );
  const shortly = policies.length === 1 ? "1 policy" : `${policies.length} policies`;
  const attached = policies.length === 0 ? "no policy" : isShort ? shortly : inForce;
  const sub = html`<span>${typeName(type)}</span>${type !== "logical" && html`<span>${attached}</span>`}${
    environment.archived_since && tag("archived since", "archive")
  }`;
  const ran =
    index === 0
      ? html`<span class="sub">no snapshot yet</span>`
      : verdictBar({ compliant, failing, unknown }, (show) => to.environment(name, { show }), { isPast: true });
  return html`<tr>${nameCell({ href: to.environment(name), name: html`<bdi>${name}</bdi>`, sub, mark: typeIcon(type) })}
<td>${badge(stateOfVerdict(environment.state))}</td><td class="w-seg seg-td">${ran}</td>
<td class="r num" data-l="Snapshot">${index > 0 && html`<a href="${to.snapshot(name, index)}">#${index}</a>`}</td>
<td class="r" data-l="Changed">${time(changed, now)}</td></tr>`;
}
