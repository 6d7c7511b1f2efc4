/** Policies as of a moment: the versions of then, and where they were in force. */
import { listPastEnvironments } from "../../../api/environments/past.ts";
import { listPastPolicies } from "../../../api/environments/past-policies.ts";
import { getPolicy } from "../../../api/policies/policies.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { sourceCode } from "../../components/code.ts";
import { icon } from "../../components/icon.ts";
import { card, linkButton, nameCell, nameList, padded, pageHead, table } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { PER_PAGE, pageOf, pager } from "../../components/lists.ts";
import { notThen } from "../../page/past-notes.ts";
import { formatNumber, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Content, Moment, Visit } from "../../page/page.ts";
import { PAST_COLUMNS, pastEnvironmentRow } from "../environments/past.ts";
import { versionsAsked } from "./policy-versions.ts";

type PastPolicy = AnswerOf<typeof listPastPolicies>["data"][number];

export const showPoliciesThen = listPage({
  title: "Policies",
  section: "policies",
  sub: "What had to be proved before something ran in an environment.",
  what: ["policy", "policies"],
  read: pageFrom(listPastPolicies, ({ query, moment }) => ({
    query: { at: moment?.text ?? "", name: query.get("search") },
  })),
  filters: [{ kind: "search", name: "search", label: "Search by name" }],
  columns: [
    { text: "Name" },
    { text: "Version then", className: "w-time" },
    { text: "In force in" },
    { text: "Stored", isRight: true },
  ],
  row: policyRow,
  empty: {
    icon: "history",
    title: "No policy existed then",
    text: "Policies are listed from the moment on at which they were created.",
  },
  none: "The search looks for a part of the present name, in any case.",
});

function policyRow({ to, now }: Visit, policy: PastPolicy): Html {
  const name = nameCell({
    href: to.policy(policy.name),
    name: html`<bdi>${policy.name}</bdi>`,
    mark: icon("law"),
    sub: policy.description === "" ? null : html`<span class="cut-block">${policy.description}</span>`,
  });
  const version = policy.version === null ? html`<span class="muted">No text</span>` : tag(`v${policy.version}`);
  const rest = policy.environment_count - policy.environments.length;
  const users = policy.environments.map(({ environment_name: environment, version }) => {
    // What stands for a damaged record is a sentence.
    const place = environment.includes(" ")
      ? environment
      : html`<a href="${to.environment(environment)}"><bdi>${environment}</bdi></a>`;
    // An environment keeps the version with which it was evaluated until its next evaluation.
    const own = version !== null && version !== policy.version && ` (v${version})`;
    return html`${place}${own}`;
  });
  return html`<tr>${name}<td>${version}</td><td class="full" data-l="In force in">${
    users.length === 0 ? html`<span class="muted">no environment</span>` : nameList(users)
  }${rest > 0 && html` and ${formatNumber(rest)} more`}</td>
<td class="r" data-l="Stored">${time(policy.stored_at, now)}</td></tr>`;
}

/** The text of a version, and where the policy was in force. */
export async function showPolicyThen(visit: Visit, name: string, { at, text }: Moment): Promise<Content> {
  const { call, query, to } = visit;
  const policy = await call(getPolicy, { params: { policy_name: name }, query: { files: ["none"] } });
  const place = { section: "policies", crumbs: [{ text: "Policies", href: to.policies() }] } as const;
  if (policy.created_at > at)
    return notThen(visit, { title: name, text: `The policy ${name} was created after that moment.`, ...place });
  const versions = policy.versions.filter(({ timestamp }) => timestamp <= at);
  const latest = versions.at(-1)?.version ?? null;
  const asked = versionsAsked(query).version ?? latest;
  if (asked !== null && !versions.some(({ version }) => version === asked))
    return notThen(visit, { title: name, text: `Version ${asked} was stored after that moment.`, ...place });
  const state = latest === null ? "no text then" : `v${latest} then`;
  return {
    title: policy.name,
    ...place,
    main: html`${pageHead({ title: html`<bdi>${policy.name}</bdi>`, state: tag(state), sub: policy.description })}<div
class="stack">${await textCard(visit, name, { asked, latest })}${await environmentsCard(visit, name, text)}</div>`,
  };
}

async function textCard(
  { call, to, now }: Visit,
  name: string,
  { asked, latest }: { asked: number | null; latest: number | null },
): Promise<Html> {
  if (asked === null)
    return card({ id: "h-version", title: "Text", body: padded("No text had been stored for this policy.") });
  const { versions } = await call(getPolicy, { params: { policy_name: name }, query: { files: [String(asked)] } });
  const shown = versions.find(({ version }) => version === asked);
  const step = (version: number, text: string): Html | false =>
    version >= 1 && version <= (latest ?? 0) && linkButton(to.policy(name, { version }), text, { kind: "small" });
  return card({
    id: "h-version",
    title: `Version ${asked}`,
    note: html`${asked === latest && tag("the latest then")} ${time(shown?.timestamp, now)} by ${shown?.created_by}`,
    more: html`<span class="right row">${step(asked - 1, `Version ${asked - 1}`)}${step(
      asked + 1,
      `Version ${asked + 1}`,
    )}</span>`,
    body: sourceCode({ text: shown?.policy_yaml ?? "", label: `Version ${asked} of ${name}` }),
  });
}

async function environmentsCard(visit: Visit, name: string, at: string): Promise<Html> {
  const { data, pagination } = await visit.call(listPastEnvironments, {
    query: { at, policy: name, page: pageOf(visit.query), per_page: PER_PAGE },
  });
  const body =
    data.length === 0
      ? padded(html`<p class="muted">It was in force in no snapshot of then.</p>`)
      : table({
          caption: "Environments in which it was in force",
          columns: PAST_COLUMNS,
          rows: data.map((environment) => pastEnvironmentRow(visit, environment)),
        });
  return html`<div>${card({ id: "h-env", title: "In force then", body })}${pager(visit, pagination)}</div>`;
}
