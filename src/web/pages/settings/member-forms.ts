/** The forms about members: adding, changing the role, removing. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { createMember } from "../../../api/accounts/members.ts";
import { formOf, hiddenField, secretBox, selectField, textField } from "../../components/forms.ts";
import { card, linkButton, padded, snippet } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { ROLE_CHOICES } from "./roles.ts";

const roleField = (visit: Visit, form: string, value: string): Html =>
  selectField(visit, { form, name: "role", label: "Role", value, choices: ROLE_CHOICES });

/** Two ways to a new member: a user who can sign in, and one who gets a login. */
export function addition(visit: Visit): Html {
  const cancel = visit.to.settings("members");
  const known = textField(visit, {
    form: "add",
    name: "user",
    label: "Login name",
    isRequired: true,
    autocomplete: "off",
    hint: "As the person signs in",
  });
  const added = html`${known}${roleField(visit, "add", "member")}`;
  const created = html`<div class="form-pair">${textField(visit, {
    form: "create",
    name: "name",
    label: "Login name",
    of: createMember,
    autocomplete: "off",
    hint: "Also the name of the personal organization; it cannot be changed later",
  })}${textField(visit, {
    form: "create",
    name: "display_name",
    label: "Name",
    of: createMember,
    autocomplete: "off",
    hint: "As others see it",
  })}</div>${textField(visit, {
    form: "create",
    name: "email",
    label: "E-mail address",
    of: createMember,
    autocomplete: "off",
    hint: "Optional; no two users have the same",
  })}${roleField(visit, "create", "member")}`;
  return html`${card({
    id: "h-add",
    title: "A user of this server",
    body: padded(formOf(visit, { name: "add", submit: "Add member", fields: added, cancel })),
  })}${card({
    id: "h-create",
    title: "A new user",
    note: "gets a password for the first sign-in",
    body: padded(formOf(visit, { name: "create", submit: "Create user", isSecondary: true, fields: created, cancel })),
  })}`;
}

type Person = { user: string; name: string };

/** The name with the login name, where that is another. */
const nameOf = ({ user, name }: Person): Html =>
  html`<b><bdi>${name}</bdi></b>${name !== user && html` (<bdi>${user}</bdi>)`}`;

export function askRole(visit: Visit, person: Person): Html {
  const fields = html`<p>The new role of ${nameOf(person)} holds from the next request on.</p>${hiddenField(
    "user",
    person.user,
  )}${roleField(visit, "role", visit.query.get("role") ?? "member")}`;
  const cancel = visit.to.settings("members");
  return card({
    id: "h-role",
    title: "Change the role",
    body: padded(formOf(visit, { name: "role", submit: "Change role", fields, cancel })),
  });
}

export function askRemove(visit: Visit, person: Person): Html {
  const fields = html`<p>${nameOf(person)} loses access to ${visit.org} with the next request. What this person
reported stays, and so do the service accounts that the person created.</p>${hiddenField("user", person.user)}`;
  const cancel = visit.to.settings("members");
  const form = formOf(visit, { name: "remove", submit: "Remove this member", isDanger: true, fields, cancel });
  return card({ id: "h-remove", title: "Remove this member?", body: padded(form) });
}

/** Instead of a question about a person who is not a member, or not any more. */
export const notMember = (visit: Visit, user: string): Html =>
  card({
    id: "h-gone",
    title: html`<bdi>${user}</bdi> is not a member`,
    body: padded(
      html`<p class="gap-b">The person was removed, or was never added.</p>${linkButton(
        visit.to.settings("members"),
        "Back to the members",
      )}`,
    ),
  });

/** The password of a user who was just created. */
export const initialPassword = (
  { address, to }: Visit,
  { user, initial_password }: AnswerOf<typeof createMember>,
): Html =>
  html`${secretBox({
    title: "The user is created",
    secret: initial_password,
    what: "password",
    more: html`<p class="sub gap-t2">Give it to the person with the login name and the address. It should be replaced on
the account page after the first sign-in.</p>${snippet(`${address}/login\nLogin name: ${user}`)}`,
  })}<div>${linkButton(to.settings("members"), "Back to the members")}</div>`;
