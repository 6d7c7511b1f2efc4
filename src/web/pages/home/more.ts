/** `/{org}/more`: on phones, the sections for which the bar at the bottom has no room, and the organizations. */
import { listViews } from "../../../api/accounts/views.ts";
import { listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import { listOwnOrganizations } from "../../../api/accounts/users.ts";
import { listControls } from "../../../api/policies/controls.ts";
import { getFlows } from "../../../api/flows/flows.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { card, moreLink, pageHead } from "../../components/layout.ts";
import { problemOf, viewHref } from "../../components/views.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { ENTRIES, SETTINGS } from "../../page/frame.ts";
import { page } from "../../page/page.ts";
import type { Section, Visit } from "../../page/page.ts";

/** Sections that not everybody has, by the operation that decides; readers of the organization have the others. */
export const RESTRICTED: Readonly<Partial<Record<Section, Parameters<Visit["may"]>[0]>>> = {
  controls: listControls,
  settings: listServiceAccounts,
};
const MAX_ORGANIZATIONS = 50;

export const morePage = page({
  path: "/{org}/more",
  past: "present",
  async show(visit) {
    const { to, org, call, may } = visit;
    // Those who may not read the organization are not shown that it exists.
    await call(getFlows, { query: { page: 1, per_page: 1 } });
    const { data, pagination } = await call(listOwnOrganizations, { query: { per_page: MAX_ORGANIZATIONS } });
    const sections = [...ENTRIES, SETTINGS]
      .filter(({ section }) => may(RESTRICTED[section] ?? getFlows))
      .map(({ href, ...one }) => entry({ ...one, href: href(to) }));
    const views = may(listViews) ? await call(listViews) : [];
    const saved = views.map((view) =>
      entry({
        href: viewHref(to, view),
        icon: problemOf(view) ? "alert" : view.for_everyone ? "people" : "bookmark",
        text: view.name,
        note: problemOf(view) ?? undefined,
        look: problemOf(view) === null ? undefined : "wait",
      }),
    );
    const organizations = data.map(({ name, role }) =>
      entry({ href: to.organization(name), icon: name === org ? "check" : "organization", text: name, note: role }),
    );
    return {
      title: "More",
      section: null,
      crumbs: [],
      main: html`${pageHead({ title: org })}<div class="stack">
${card({ id: "h-sections", title: "Sections", body: html`<ul class="rows">${sections}</ul>` })}
${
  views.length > 0 &&
  card({
    id: "h-views",
    title: "Views",
    more: moreLink(to.views(), "Change"),
    body: html`<ul class="rows">${saved}</ul>`,
  })
}
${card({
  id: "h-orgs",
  title: "Organizations",
  more: pagination.total > data.length && moreLink(to.account(), `All ${pagination.total}`),
  body: html`<ul class="rows">${organizations}</ul>`,
})}
${card({
  id: "h-you",
  title: "You",
  body: html`<ul class="rows">${[
    entry({ href: to.account(), icon: "person", text: "Account" }),
    entry({ href: to.guide(), icon: "book", text: "API reference" }),
  ]}</ul>`,
})}</div>`,
    };
  },
});

type Entry = { href: string; icon: IconName; text: string; note?: string | undefined; look?: "wait" | undefined };

const entry = ({ href, icon: name, text, note, look }: Entry): Html =>
  html`<li${look && html` class="${look}"`}>${icon(name)}<a class="grow name" href="${href}"><bdi>${text}</bdi></a>${
    note !== undefined && html`<span class="sub">${note}</span>`
  }</li>`;
