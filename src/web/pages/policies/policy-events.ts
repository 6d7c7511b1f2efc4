/** The tab with the history of a policy, newest first. */
import { presentPagination } from "../../../http/pagination.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { card } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Policy } from "./policy-data.ts";

type Event = Policy["events"][number];

const PER_PAGE = 50;
const ICONS: Readonly<Record<Event["type"], IconName>> = {
  creation: "plus",
  new_version: "diff-modified",
  metadata_update: "pencil",
  renaming: "pencil",
  archiving: "archive",
};

export function eventsTab(visit: Visit, policy: Policy): Html {
  const { query, now } = visit;
  const page = pageOf(query);
  const total = policy.events.length;
  const shown = policy.events.toReversed().slice((page - 1) * PER_PAGE, page * PER_PAGE);
  const items = shown.map(
    (event) =>
      html`<li><span class="tl-n">${icon(ICONS[event.type], "12")}</span><div class="tl-b">${sentence(
        visit,
        policy,
        event,
      )}</div>${time(event.timestamp, now)}</li>`,
  );
  return html`${card({ id: "h-events", title: "Events", body: html`<ol class="tl">${items}</ol>` })}${pager(
    visit,
    presentPagination(total, page, PER_PAGE),
  )}`;
}

function sentence({ to }: Visit, policy: Policy, { type, user, data }: Event): Value {
  if (type === "new_version") {
    const number = Number(data?.["version"]);
    const version = policy.versions.find((one) => one.version === number);
    const link = version
      ? html`<a href="${to.policy(policy.name, { tab: "versions", version: number })}">version ${number}</a>`
      : "a version";
    return html`<b>${user}</b> stored ${link}${version?.comment && html`<div class="sub">${version.comment}</div>`}`;
  }
  const did = {
    creation: "created the policy",
    metadata_update: "changed the description",
    renaming: "renamed the policy",
    archiving: "archived the policy",
  }[type];
  return html`<b>${user}</b> ${did}`;
}
