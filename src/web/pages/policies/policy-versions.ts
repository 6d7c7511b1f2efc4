/** The tab with the versions of a policy: the list, the text of one, and the difference of two. */
import { presentPagination } from "../../../http/pagination.ts";
import { diffLines } from "../../../domain/text/line-diff.ts";
import { sourceCode } from "../../components/code.ts";
import { changeSummary, textDiff } from "../../components/diff.ts";
import { icon } from "../../components/icon.ts";
import { card, empty, linkButton, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Policy, PolicyVersion } from "./policy-data.ts";
import { latestOf } from "./policy-data.ts";

const PER_PAGE = 25;
/** Versions that can be chosen for a comparison, newest first. */
const MAX_CHOICES = 200;

/** The versions in the address: `version`, and `against`, the one that it is compared with. */
export function versionsAsked(query: URLSearchParams): { version: number | null; against: number | null } {
  const numberOf = (name: string): number | null => {
    const text = query.get(name) ?? "";
    return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
  };
  return { version: numberOf("version"), against: numberOf("against") };
}

/** @param policy with the texts of the versions in the address */
export function versionsTab(visit: Visit, policy: Policy): Html {
  const asked = versionsAsked(visit.query);
  const find = (number: number | null) => policy.versions.find(({ version }) => version === number) ?? null;
  const version = find(asked.version);
  if (!version) return versionList(visit, policy);
  const against = find(asked.against);
  return against ? comparison(visit, policy, { from: against, to: version }) : oneVersion(visit, policy, version);
}

const address = ({ to }: Visit, policy: Policy, query: { version?: number; against?: number }): string =>
  to.policy(policy.name, { tab: "versions", ...query });

function versionList(visit: Visit, policy: Policy): Html {
  const { query, now } = visit;
  const total = policy.versions.length;
  if (total === 0)
    return html`<section class="card">${empty({
      icon: "history",
      title: "No version yet",
      text: "Each text that is stored for the policy becomes a version.",
    })}</section>`;
  const page = pageOf(query);
  const shown = policy.versions.toReversed().slice((page - 1) * PER_PAGE, page * PER_PAGE);
  const rows = shown.map(({ version, comment, created_by, timestamp }) => {
    const name = nameCell({
      href: address(visit, policy, { version }),
      name: `Version ${version}`,
      after: version === total && tag("in force"),
      sub: comment === "" ? null : html`<span class="cut-block">${comment}</span>`,
    });
    const changes =
      version > 1 &&
      html`<a class="link" href="${address(visit, policy, { version, against: version - 1 })}">Changes<span
class="vh"> of version ${version}</span></a>`;
    return html`<tr>${name}<td class="fill">${created_by}</td><td>${changes}</td>
<td class="r full" data-l="Stored">${time(timestamp, now)}</td></tr>`;
  });
  const columns = [
    { text: "Version" },
    { text: "By" },
    { text: "Changes", isHidden: true },
    { text: "Stored", isRight: true },
  ];
  return html`${total > 1 && compareForm(visit, policy, { from: total - 1, to: total })}
<section class="card" aria-label="Versions">${table({ caption: "Versions", columns, rows })}</section>${pager(
    visit,
    presentPagination(total, page, PER_PAGE),
  )}`;
}

function compareForm({ to }: Visit, policy: Policy, chosen: { from: number; to: number }): Html {
  const numbers = policy.versions
    .map(({ version }) => version)
    .reverse()
    .slice(0, MAX_CHOICES);
  const choice = (name: string, label: string, value: number): Html =>
    html`<select class="field" name="${name}" aria-label="${label}">${numbers.map(
      (number) => html`<option value="${number}"${number === value && html` selected`}>Version ${number}</option>`,
    )}</select>`;
  return html`<form class="filters compare" method="get" action="${to.policy(policy.name)}"><input
type="hidden" name="tab" value="versions"><span class="sub">Compare</span>
${choice("against", "Earlier version", chosen.from)}<span
class="sub">with</span>${choice("version", "Later version", chosen.to)}<button class="btn"
type="submit">${icon("git-compare")}Compare</button></form>`;
}

/** Links to the versions before and after. */
function neighbours(visit: Visit, policy: Policy, { version }: PolicyVersion): Html {
  const link = (number: number, text: Value, label: string): Html =>
    number < 1 || number > policy.versions.length
      ? html`<span class="btn btn-s" aria-disabled="true">${text}</span>`
      : html`<a class="btn btn-s" href="${address(visit, policy, { version: number })}"
aria-label="${label}">${text}</a>`;
  return html`<span class="btn-group">${link(version - 1, icon("chevron-left"), "Version before")}${link(
    version + 1,
    icon("chevron-right"),
    "Version after",
  )}</span>`;
}

const said = ({ comment, created_by, timestamp }: PolicyVersion, now: number): Html =>
  html`${time(timestamp, now)} by ${created_by}${comment !== "" && html`: ${comment}`}`;

function oneVersion(visit: Visit, policy: Policy, shown: PolicyVersion): Html {
  const { version } = shown;
  const isInForce = version === latestOf(policy)?.version;
  const changes =
    version > 1 &&
    linkButton(address(visit, policy, { version, against: version - 1 }), `Changes since v${version - 1}`, {
      icon: "git-compare",
      kind: "small",
    });
  const inForce =
    !isInForce &&
    html`<a href="${address(visit, policy, { version: policy.versions.length })}">Version ${policy.versions.length}
is in force</a>`;
  return card({
    id: "h-version",
    title: `Version ${version}`,
    note: html`${isInForce && tag("in force")} ${said(shown, visit.now)}`,
    more: html`<span class="right row">${changes}${neighbours(visit, policy, shown)}</span>`,
    body: sourceCode({ text: shown.policy_yaml, label: `Version ${version} of ${policy.name}` }),
    foot: html`<a href="${address(visit, policy, {})}">All versions</a><span class="right">${inForce}</span>`,
  });
}

function comparison(visit: Visit, policy: Policy, { from, to }: { from: PolicyVersion; to: PolicyVersion }): Html {
  const lines = diffLines(from.policy_yaml, to.policy_yaml);
  const label = `Version ${to.version} compared with version ${from.version}`;
  const isSame = lines.every(({ kind }) => kind === "same");
  const form = compareForm(visit, policy, { from: from.version, to: to.version });
  return html`${form}${card({
    id: "h-diff",
    title: `Changes from version ${from.version} to ${to.version}`,
    note: changeSummary(lines),
    more: html`<span class="right">${linkButton(address(visit, policy, { version: to.version }), "Whole text", {
      kind: "small",
    })}</span>`,
    body: isSame ? padded(html`<p class="muted">Both texts are the same.</p>`) : textDiff(lines, label),
    foot: html`<span>${said(to, visit.now)}</span>`,
  })}`;
}
