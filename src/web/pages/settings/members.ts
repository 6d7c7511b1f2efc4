/** `/{org}/settings/members`: people and their roles. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { createMember, listMembers, putMember, removeMember } from "../../../api/accounts/members.ts";
import { getOrganization } from "../../../api/accounts/organizations.ts";
import type { Role } from "../../../domain/access.ts";
import { AppError, invalid } from "../../../errors.ts";
import { icon } from "../../components/icon.ts";
import { emailAddress } from "../../components/identifier.ts";
import { linkButton, nameCell, reasonsBox } from "../../components/layout.ts";
import { pageFrom, renderList } from "../../components/list-page.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, FormOutcome, Visit } from "../../page/page.ts";
import { addition, askRemove, askRole, initialPassword, notMember } from "./member-forms.ts";
import { settingsContent } from "./settings-page.ts";

type Member = AnswerOf<typeof listMembers>["data"][number];

const MAX_SEARCH_CHARS = 256;

export const membersPage = page({
  path: "/{org}/settings/members",
  async show(visit) {
    const { query, refused, may } = visit;
    const ask = refused ? QUESTION_OF[refused.form] : query.get("ask");
    const user = refused ? refused.fields.text("user") : (query.get("user") ?? "");
    if (ask === "add" && may(createMember) && may(putMember)) return framed(visit, "Add a member", addition(visit));
    if (ask === "role" && user !== "" && may(putMember)) return about(visit, user, askRole);
    if (ask === "remove" && user !== "" && may(removeMember)) return about(visit, user, askRemove);
    return framed(visit, undefined, await memberList(visit));
  },
  forms: {
    add: form(putMember, async ({ call, to }, fields) => {
      const user = fields.text("user").trim();
      await asUserField(call(putMember, { params: { user }, body: { role: fields.text("role") as Role } }), "user");
      return { go: to.settings("members"), done: "added" };
    }),
    create: form(createMember, async (visit, fields) => {
      const member = await visit.call(createMember, {
        body: {
          name: fields.text("name").trim(),
          display_name: fields.text("display_name").trim(),
          email: fields.optional("email"),
          role: fields.text("role") as Role,
        },
      });
      return { once: framed(visit, member.display_name, initialPassword(visit, member)) };
    }),
    role: form(putMember, async (visit, fields) => {
      const user = fields.text("user");
      await visit.call(putMember, { params: { user }, body: { role: fields.text("role") as Role } });
      return afterChange(visit, user, "saved");
    }),
    remove: form(removeMember, async (visit, fields) => {
      const user = fields.text("user");
      const { service_accounts: accounts } = await visit.call(removeMember, { params: { user } });
      if (accounts.length === 0 || user === visit.user.name) return afterChange(visit, user, "removed");
      return { once: framed(visit, user, remaining(visit, { user, accounts })) };
    }),
  },
});

/** The question that a form answers. */
const QUESTION_OF: Readonly<Record<string, string>> = { add: "add", create: "add", role: "role", remove: "remove" };

const framed = (visit: Visit, title: string | undefined, main: Html): Content =>
  settingsContent(visit, "members", title === undefined ? { main } : { title, main });

/** A question about a member. The address of one may outlive the membership: then a new role would be a new member. */
async function about(visit: Visit, user: string, ask: typeof askRole): Promise<Content> {
  const { data, pagination } = await visit.call(listMembers, { query: { search: user.slice(0, MAX_SEARCH_CHARS) } });
  const member = data.find((one) => one.user === user);
  const isMember = member !== undefined || pagination.total > data.length;
  const name = member?.display_name ?? user;
  return framed(visit, name, isMember || visit.refused ? ask(visit, { user, name }) : notMember(visit, user));
}

/** A person who gave up their own rights does not see this page any more. */
const afterChange = ({ to, user }: Visit, changed: string, done: "saved" | "removed"): FormOutcome =>
  changed === user.name ? { go: to.account(), done } : { go: to.settings("members"), done };

/** Reports an unknown login name at its field. */
async function asUserField<T>(answer: Promise<T>, field: string): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    throw invalid({ [field]: `${error.message}: check the login name, or create the user below` });
  }
}

async function memberList(visit: Visit): Promise<Html> {
  const { call, here, may } = visit;
  const { kind } = await call(getOrganization);
  const isShared = kind === "shared";
  const add =
    isShared &&
    may(createMember) &&
    html`<span class="right">${linkButton(here({ ask: "add", user: null }), html`${icon("plus")}Add member`, {
      kind: "small",
    })}</span>`;
  const { body } = await renderList(visit, {
    what: ["member", "members"],
    read: pageFrom(listMembers, ({ query }) => ({
      query: { search: (query.get("search") ?? "").trim().slice(0, MAX_SEARCH_CHARS) || null },
    })),
    filters: isShared ? [{ kind: "search", name: "search", label: "Search by name or e-mail" }] : [],
    head: () => ({
      id: "h-members",
      title: "Members",
      more: add,
      foot: !isShared && "A personal organization has its user as the only member.",
    }),
    columns: [
      { text: "Name" },
      { text: "Role" },
      { text: "Since", className: "hide-tablet" },
      { text: "Last login" },
      { text: "Actions", isHidden: true },
    ],
    row: (shown, member: Member) => memberRow(shown, member, isShared),
    empty: { icon: "people", title: "No members", text: "People who are added are listed here." },
    none: "The search looks for a part of the login name, the name or the e-mail address.",
  });
  return html`<div>${body}</div>`;
}

function memberRow(visit: Visit, member: Member, isShared: boolean): Html {
  const { here, to, now, user } = visit;
  const name = nameCell({
    href: null,
    name: html`<bdi>${member.display_name}</bdi>`,
    after: member.user === user.name && tag("you"),
    sub: html`<bdi>${member.user}</bdi>${member.email && emailAddress(member.email)}`,
    mark: icon("person"),
  });
  const of = html`<span class="vh"> of ${member.display_name}</span>`;
  const change =
    isShared &&
    !member.role_from_login &&
    html`<a class="btn btn-s" href="${here({ ask: "role", user: member.user, role: member.role })}">Change
role${of}</a>`;
  const history = to.settings("audit-log", { tab: "memberships", search: member.user });
  const remove =
    isShared &&
    html`<a class="btn btn-s btn-danger" href="${here({ ask: "remove", user: member.user })}">Remove<span
class="vh"> ${member.display_name}</span></a>`;
  const login =
    member.last_login_at === null ? html`<span class="muted">unknown</span>` : time(member.last_login_at, now);
  const origin = member.role_from_login && html` <span class="sub">by the login provider</span>`;
  return html`<tr>${name}<td>${tag(member.role)}${origin}</td><td class="hide-tablet" data-l="Since">${time(
    member.since,
    now,
  )}</td>
<td data-l="Last login">${login}</td><td class="r"><span class="row-actions"><a class="btn btn-s btn-quiet"
href="${history}">History${of}</a>${change}${remove}</span></td></tr>`;
}

/** What a removed person leaves behind: machines whose keys the person may still know. */
function remaining(visit: Visit, { user, accounts }: { user: string; accounts: readonly string[] }): Html {
  const links = accounts.map((name) => html`<a href="${visit.to.serviceAccount(name)}">${name}</a>`);
  return reasonsBox({
    state: "wait",
    title: html`<bdi>${user}</bdi> is removed. Service accounts of this person keep working`,
    reasons: links,
    actions: linkButton(visit.to.settings("members"), "Back to the members"),
  });
}
