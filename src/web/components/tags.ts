/** Tags of a record: shown as a list, and changed one by one. */
import { patchTags } from "../../api/tags.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { form } from "../page/page.ts";
import type { Fields } from "../page/fields.ts";
import type { Content, Form, Visit } from "../page/page.ts";
import { formOf, hiddenField, textField } from "./forms.ts";
import { isWebAddress } from "./identifier.ts";
import { seenField } from "./impact.ts";

type Tags = Readonly<Record<string, string>>;

/** The tags as `key: value`, links where a value is an address; null without any. */
export function tagList(tags: Tags): Html | null {
  const entries = Object.entries(tags);
  if (entries.length === 0) return null;
  const shown = entries.map(([key, value]) => html`<span class="tag"><b>${key}</b> ${tagValue(value)}</span>`);
  return html`<span class="row">${shown}</span>`;
}

const tagValue = (value: string): Html =>
  isWebAddress(value) ? html`<a href="${value}" rel="noopener noreferrer">${value}</a>` : html`${value}`;

/**
 * The tags with buttons that remove them, and a form that adds one.
 * @param options.isPreviewed policies read these tags: `check` of tagForms looks at what a change would turn
 */
export function tagEditor(visit: Visit, tags: Tags, { isPreviewed = false }: { isPreviewed?: boolean } = {}): Html {
  const unseen = isPreviewed && seenField("");
  const rows = Object.entries(tags).map(
    ([key, value]) =>
      html`<li><div class="grow"><b>${key}</b> <span class="muted">${tagValue(value)}</span></div>${formOf(visit, {
        name: "remove_tag",
        submit: "Remove",
        isInline: true,
        isDanger: true,
        fields: html`${hiddenField("key", key)}${unseen}`,
      })}</li>`,
  );
  const key = textField(visit, { form: "set_tag", name: "key", label: "Key", isRequired: true });
  const fields = html`<div class="tag-row">${key}${textField(visit, {
    form: "set_tag",
    name: "value",
    label: "Value",
  })}</div>${unseen}`;
  return html`${rows.length > 0 && html`<ul class="rows rows-tags">${rows}</ul>`}<div class="card-b">${formOf(visit, {
    name: "set_tag",
    submit: "Set tag",
    isSecondary: true,
    fields,
  })}</div>`;
}

type Resource = "flow" | "environment" | "control" | "repo";

/** Tags to set and to remove, as the operation takes them. */
type ChangedTags = { set_tags?: Record<string, string>; remove_tags?: string[] };

/** What a form of `tagEditor` changes. */
export const tagChangeOf = (form: string, fields: Fields): ChangedTags =>
  form === "set_tag"
    ? { set_tags: { [fields.text("key").trim()]: fields.text("value").trim() } }
    : { remove_tags: [fields.text("key")] };

/**
 * The forms of `tagEditor`.
 * @param idOf the resource of the page, and where its tags are shown
 * @param check the page with a question, for a change that is not made before it is answered; null for the others
 */
export function tagForms(
  resource_type: Resource,
  idOf: (visit: Visit) => { id: string; back: string },
  check: (visit: Visit, form: "set_tag" | "remove_tag", fields: Fields) => Promise<Content | null> = async () => null,
): Record<"set_tag" | "remove_tag", Form> {
  const changing = (name: "set_tag" | "remove_tag"): Form =>
    form(patchTags, async (visit, fields) => {
      const question = await check(visit, name, fields);
      if (question !== null) return { show: question };
      const { id, back } = idOf(visit);
      await visit.call(patchTags, { params: { resource_type, resource_id: id }, body: tagChangeOf(name, fields) });
      return { go: back, done: "saved" };
    });
  return { set_tag: changing("set_tag"), remove_tag: changing("remove_tag") };
}
