/** API keys, of service accounts and of people: the list, the forms, and the key itself, which is shown once. */
import type { AnswerOf } from "../../http/in-process.ts";
import type { listApiKeys } from "../../api/accounts/api-keys.ts";
import { createApiKey, rotateApiKey } from "../../api/accounts/api-keys.ts";
import { DAY_S } from "../../domain/time.ts";
import { invalid } from "../../errors.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Fields } from "../page/fields.ts";
import type { Visit } from "../page/page.ts";
import { formOf, hiddenField, secretBox, selectField, textField } from "./forms.ts";
import { icon } from "./icon.ts";
import { card, linkButton, padded, snippet, table } from "./layout.ts";
import { pager, sliceOf } from "./lists.ts";
import { tag } from "./state.ts";
import { time } from "./time.ts";

export type ShownKeyRow = AnswerOf<typeof listApiKeys>[number];

const PER_PAGE = 25;
/** As early as the first warning by mail (domain/notification/key-expiry.ts). */
const SOON_S = 14 * DAY_S;

/** Lives of keys, in days; 0: without an end. */
const LIVES = [
  { value: "7", text: "in 7 days" },
  { value: "30", text: "in 30 days" },
  { value: "90", text: "in 90 days" },
  { value: "365", text: "in 1 year" },
  { value: "0", text: "never" },
] as const;
const DEFAULT_LIFE = "90";
/** Of a rotation: the new key ends when the old one would have. */
const SAME_END = "same";

/** The end of a key that a form chose. @throws AppError 400 for what the form does not offer */
function endOf(fields: Fields, now: number): number {
  const chosen = LIVES.find(({ value }) => value === fields.text("expires_at"));
  if (!chosen) throw invalid({ expires_at: "Choose one of the ends in the list" });
  return chosen.value === "0" ? 0 : Math.floor(now) + Number(chosen.value) * DAY_S;
}

/** The body of the operation that creates a key. @throws AppError 400 */
export const keyBody = (fields: Fields, now: number): { description: string; expires_at: number } => ({
  description: fields.text("description").trim(),
  expires_at: endOf(fields, now),
});

/** The body of the operation that rotates a key. @throws AppError 400 */
export function rotationBody(fields: Fields, now: number): { grace_period_hours: number; expires_at?: number } {
  const hours = Number(fields.text("grace_period_hours"));
  return fields.text("expires_at") === SAME_END
    ? { grace_period_hours: hours }
    : { grace_period_hours: hours, expires_at: endOf(fields, now) };
}

/** The valid keys, with what may be done with them. @param mayRotate whether the person may also create keys */
export function keyTable(
  visit: Visit,
  keys: readonly ShownKeyRow[],
  { mayRevoke, mayRotate, perPage = PER_PAGE }: { mayRevoke: boolean; mayRotate: boolean; perPage?: number },
): Html {
  if (keys.length === 0) return padded(html`<p class="muted">There is no valid key.</p>`);
  const { rows: shown, position } = sliceOf(visit.query, keys, perPage);
  const columns = [
    { text: "Description" },
    { text: "Created" },
    { text: "Last used" },
    { text: "Ends" },
    ...(mayRevoke || mayRotate ? [{ text: "Actions", isHidden: true }] : []),
  ];
  const rows = shown.map((key) => keyRow(visit, key, { mayRevoke, mayRotate }));
  const foot = pager(visit, position);
  return html`${table({ caption: "API keys", columns, rows })}${foot && padded(foot)}`;
}

function keyRow(
  { now, here }: Visit,
  key: ShownKeyRow,
  { mayRevoke, mayRotate }: { mayRevoke: boolean; mayRotate: boolean },
): Html {
  const { id, description, created_at, last_used_at } = key;
  const isRotated = key.grace_period_expires_at !== undefined;
  const of = html`<span class="vh"> ${description}</span>`;
  const rotate =
    mayRotate && !isRotated && linkButton(here({ ask: "rotate", key: id }), html`${icon("sync")}Rotate${of}`, SMALL);
  const revoke =
    mayRevoke && html`<a class="btn btn-s btn-danger" href="${here({ ask: "revoke", key: id })}">Revoke${of}</a>`;
  const used = last_used_at === 0 ? html`<span class="muted">never</span>` : time(last_used_at, now);
  return html`<tr><td class="lead"><span class="t-name"><bdi>${description}</bdi></span>${
    isRotated && html` ${tag("replaced, still works")}`
  }<div class="sub"><span class="id" title="${id}">${id.slice(0, 13)}</span></div></td>
<td data-l="Created">${time(created_at, now)}</td><td data-l="Used">${used}</td>
<td data-l="Ends">${endCell(key, now)}</td>
${
  (mayRevoke || mayRotate) && html`<td class="r"><span class="row-actions beside">${rotate}${revoke}</span></td>`
}</tr>`;
}

const SMALL = { kind: "small" } as const;

function endCell({ expires_at, grace_period_expires_at: grace }: ShownKeyRow, now: number): Html {
  const end = grace ?? expires_at;
  if (end === 0) return html`<span class="muted">never</span>`;
  return end - now > SOON_S
    ? time(end, now)
    : html`<span class="st wait" title="Expires soon">${icon("clock")}${time(end, now)}</span>`;
}

/** The form that creates a key. `hint` says what the key will be allowed to do. */
export function newKeyForm(visit: Visit, hint: Value): Html {
  const fields = html`<div class="form-pair">${textField(visit, {
    form: "create_key",
    name: "description",
    label: "Description",
    of: createApiKey,
    placeholder: "Where it will be used",
    hint: "",
  })}${selectField(visit, {
    form: "create_key",
    name: "expires_at",
    label: "Ends",
    value: DEFAULT_LIFE,
    choices: LIVES,
  })}</div><p class="hint">${hint}</p>`;
  return formOf(visit, { name: "create_key", submit: "Create key", fields });
}

/** The page as it is without the question that its form just answered. */
export const afterQuestion = (visit: Visit): Visit =>
  Object.create(visit, {
    query: { value: new URLSearchParams() },
    here: { value: (changes: Parameters<Visit["here"]>[0]) => visit.here({ ask: null, key: null, ...changes }) },
  }) as Visit;

/**
 * What `?ask=rotate` and `?ask=revoke` ask about the key in the address; null without such a question.
 * @param options as for `keyTable`
 */
export function keyQuestion(
  visit: Visit,
  keys: readonly ShownKeyRow[],
  { mayRotate }: { mayRotate: boolean },
): Html | null {
  const { query, refused } = visit;
  const asked = refused?.form === "rotate_key" || refused?.form === "revoke_key" ? refused.form : null;
  const question = asked?.replace("_key", "") ?? query.get("ask");
  if (question !== "revoke" && !(question === "rotate" && mayRotate)) return null;
  const key = keys.find(({ id }) => id === query.get("key"));
  const back = visit.here({ ask: null, key: null });
  if (!key)
    return card({
      id: "h-key",
      title: "This key is no longer valid",
      body: padded(html`<p class="gap-b">It was revoked, or has expired.</p>${linkButton(back, "Back to the keys")}`),
    });
  return question === "rotate" ? askRotate(visit, key, back) : askRevoke(visit, key, back);
}

const nameOf = ({ description, id }: ShownKeyRow): Html =>
  html`<b><bdi>${description}</bdi></b> <span class="id">${id.slice(0, 13)}</span>`;

function askRotate(visit: Visit, key: ShownKeyRow, cancel: string): Html {
  const fields = html`<p>A new key takes the place of ${nameOf(key)}. The old one keeps working until the grace period
ends, so that its clients can be changed one by one.</p>${hiddenField("key", key.id)}<div class="form-pair">${textField(
    visit,
    {
      form: "rotate_key",
      name: "grace_period_hours",
      label: "Grace period in hours",
      value: 24,
      type: "number",
      of: rotateApiKey,
      hint: "1 to 720 hours",
    },
  )}${selectField(visit, {
    form: "rotate_key",
    name: "expires_at",
    label: "The new key ends",
    value: SAME_END,
    choices: [{ value: SAME_END, text: "when the old one would have" }, ...LIVES],
  })}</div>`;
  const form = formOf(visit, { name: "rotate_key", submit: "Rotate key", fields, cancel });
  return card({ id: "h-key", title: "Rotate this key?", body: padded(form) });
}

function askRevoke(visit: Visit, key: ShownKeyRow, cancel: string): Html {
  const used =
    key.last_used_at === 0 ? html`It was never used.` : html`It was used ${time(key.last_used_at, visit.now)}.`;
  const fields = html`<p>${nameOf(key)} is refused from the next request on, and cannot be restored. ${used}</p>
${hiddenField("key", key.id)}`;
  const form = formOf(visit, { name: "revoke_key", submit: "Revoke key", isDanger: true, fields, cancel });
  return card({ id: "h-key", title: "Revoke this key?", body: padded(form) });
}

/** The key that was just created, with what to paste for the clients that use it. */
export function shownKey({ address }: Pick<Visit, "address">, { key, org, note }: ShownKey): Html {
  const blocks = pasteBlocks({ address, org, key }).map(
    ({ name, where, text }, index) =>
      html`<details class="paste"${index === 0 && html` open`}><summary>${icon("chevron-right", "12")}${name}</summary>
<p class="sub">${where}</p>${snippet(text)}</details>`,
  );
  const more = html`<p class="sub gap-t2">Only a hash of it is stored. ${note}</p><div class="pastes">${blocks}</div>`;
  return secretBox({ title: "The key is created", secret: key, what: "key", more });
}

type ShownKey = { key: string; org: string; note?: Value };
type PasteBlock = { name: string; where: string; text: string };

function pasteBlocks({ address, org, key }: { address: string; org: string; key: string }): PasteBlock[] {
  return [
    {
      name: "Shell",
      where: "In the shell that calls the client.",
      text: [`export KOSLI_HOST=${address}`, `export KOSLI_ORG=${org}`, `export KOSLI_API_TOKEN=${key}`].join("\n"),
    },
    {
      name: "GitHub Actions",
      where: "Store the key as the secret KOSLI_API_TOKEN of the repository; this goes into the workflow.",
      text: [
        "env:",
        `  KOSLI_HOST: ${address}`,
        `  KOSLI_ORG: ${org}`,
        "  KOSLI_API_TOKEN: ${{ secrets.KOSLI_API_TOKEN }}",
      ].join("\n"),
    },
    {
      name: "GitLab CI",
      where: "Store the key as the masked variable KOSLI_API_TOKEN of the project; this goes into .gitlab-ci.yml.",
      text: ["variables:", `  KOSLI_HOST: ${address}`, `  KOSLI_ORG: ${org}`].join("\n"),
    },
  ];
}
