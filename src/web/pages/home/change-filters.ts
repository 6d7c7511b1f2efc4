/** The period, the environment and the kind of the changes that are shown, and how many there are of each kind. */
import { listEnvs } from "../../../api/environments/environments.ts";
import type { listChanges } from "../../../api/environments/period-changes.ts";
import { CHANGE_KINDS } from "../../../domain/snapshot/period-changes.ts";
import type { ChangeKind } from "../../../domain/snapshot/period-changes.ts";
import { lastEvening } from "../../../domain/time.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { choiceField, timeField } from "../../components/lists.ts";
import type { FilterChoice } from "../../components/lists.ts";
import { icon } from "../../components/icon.ts";
import { formatNumber } from "../../components/state.ts";
import { saveView } from "../../components/views.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

type Counts = AnswerOf<typeof listChanges>["counts"];
type Group = { text: string; choice: string; kinds: readonly ChangeKind[] };

/** Kinds as pages group them. */
const GROUPS: Readonly<Record<string, Group>> = {
  verdicts: { text: "Verdicts changed", choice: "Verdicts", kinds: ["verdict"] },
  upgrades: { text: "Upgrades", choice: "Upgrades", kinds: ["upgraded"] },
  running: {
    text: "Other artifact changes",
    choice: "Starts, exits, scaling, provenance",
    kinds: ["started", "exited", "scaled", "provenance"],
  },
  rules: { text: "Rules", choice: "Rules", kinds: ["policy", "allowlist"] },
  people: { text: "People and records", choice: "People, keys and records", kinds: ["member", "key", "record"] },
  stale: { text: "Not reporting", choice: "Not reporting", kinds: ["stale"] },
};

/** The kinds of a group, or the one kind of that name; empty for all, null for a name that is none. */
export function kindsOfGroup(name: string): readonly ChangeKind[] | null {
  if (name === "") return [];
  if (Object.hasOwn(GROUPS, name)) return GROUPS[name]?.kinds ?? null;
  const kind = CHANGE_KINDS.find((one) => one === name);
  return kind === undefined ? null : [kind];
}

/** What is wrong with a field, by its name. */
export type Problems = Readonly<Partial<Record<"from" | "to" | "environment" | "kind", string>>>;

/** Environments in the list of choices; others are reached from their own pages. */
const MAX_CHOICES = 50;

export async function changeFilters(
  visit: Visit,
  { problems, counts }: { problems: Problems; counts: Counts | null },
): Promise<Html> {
  const { query, here, path, to, now } = visit;
  const value = (name: string): string => (query.get(name) ?? "").trim();
  const from = value("from");
  const isRange = value("to") !== "" || (from !== "" && !periods(now).some((one) => one.from === from));
  const links = periods(now).map(
    (one) =>
      html`<a class="btn" href="${here({ from: one.from, to: null })}"${
        value("to") === "" && (from === one.from || (from === "" && one.from === DEFAULT)) && html` aria-current="true"`
      }>${one.text}</a>`,
  );
  const isOpen = isRange || problems.from !== undefined || problems.to !== undefined;
  const form = html`<form class="filters" method="get" action="${to.path(path.slice(1))}">
<span class="btn-group states" role="group" aria-label="Period">${links}</span>
${choiceField("environment", "Environment", {
  value: value("environment"),
  choices: await environmentChoices(visit),
  problem: problems.environment,
})}
${choiceField("kind", "Kind", { value: value("kind"), choices: kindChoices(counts), problem: problems.kind })}
${value("view") !== "" && html`<input type="hidden" name="view" value="${value("view")}">`}
<details class="filters-range"${isOpen && html` open`}>
<summary class="btn">From and to${icon("chevron-down", "12")}</summary>
<div class="filters-row">${timeField("from", "From", {
    value: from,
    placeholder: DEFAULT,
    problem: problems.from,
  })}${timeField("to", "To", { value: value("to"), placeholder: "now", problem: problems.to })}</div></details>
<button class="btn" type="submit">Show</button></form>`;
  const isWrong = Object.keys(problems).length > 0;
  const chips = !isWrong && html`<div class="chips">${saveView(visit)}${viewSwitch(visit)}</div>`;
  const head = html`<div class="list-head">${form}${chips}</div>`;
  return html`${head}${counts && strip(visit, counts)}`;
}

const DEFAULT = "24hours";

/** When last night began, as the page takes it. */
export const lastNight = (now: number): string => `${new Date(lastEvening(now) * 1000).toISOString().slice(0, 16)}Z`;

const periods = (now: number): { text: string; from: string }[] => [
  { text: "Last night", from: lastNight(now) },
  { text: "24 hours", from: DEFAULT },
  { text: "7 days", from: "7days" },
  { text: "30 days", from: "30days" },
];

async function environmentChoices({ call, query }: Visit): Promise<FilterChoice[]> {
  const { data } = await call(listEnvs, { query: { page: 1, per_page: MAX_CHOICES } }).then(namesIn);
  const own = (query.get("environment") ?? "").trim();
  const all = own !== "" && !data.includes(own) ? [own, ...data] : data;
  return [{ value: "", text: "All environments" }, ...all.map((name) => ({ value: name, text: name }))];
}

/** The operation answers with a list, or with a page of it. */
const namesIn = (answer: AnswerOf<typeof listEnvs>): { data: string[] } => ({
  data: (Array.isArray(answer) ? answer : (Object.values(answer).find(Array.isArray) ?? [])).map(
    ({ name }: { name: string }) => name,
  ),
});

const kindChoices = (counts: Counts | null): FilterChoice[] => [
  { value: "", text: "Every change" },
  ...Object.entries(GROUPS)
    .filter(([, { kinds }]) => counts === null || kinds.some((kind) => counts[kind] !== null))
    .map(([value, { choice }]) => ({ value, text: choice })),
];

function viewSwitch({ here, query }: Visit): Html {
  const isByTime = query.get("view") === "time";
  const link = (text: string, view: string | null, isCurrent: boolean): Html =>
    html`<a class="btn" href="${here({ view })}"${isCurrent && html` aria-current="true"`}>${text}</a>`;
  return html`<span class="btn-group right" role="group" aria-label="Order">${link(
    "By environment",
    null,
    !isByTime,
  )}${link("By time", "time", isByTime)}</span>`;
}

/** Figures that are links to what they count. */
function strip({ here, query }: Visit, counts: Counts): Html {
  const current = query.get("kind");
  const items = Object.entries(GROUPS).flatMap(([name, { text, kinds }]) => {
    const known = kinds.map((kind) => counts[kind]);
    if (known.every((one) => one === null)) return [];
    const total = known.reduce<number>((sum, one) => sum + (one ?? 0), 0);
    const isCurrent = current === name;
    const href = here({ kind: isCurrent ? null : name });
    return [
      html`<div><dt><a href="${href}"${isCurrent && html` aria-current="true"`}>${text}</a></dt><dd><span
class="fig${total === 0 && " muted"}">${formatNumber(total)}</span></dd></div>`,
    ];
  });
  return html`<dl class="figures figures-links">${items}</dl>`;
}
