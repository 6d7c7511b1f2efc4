/** The fields of a control, for the forms that create and edit one. */
import type { postControl, putControl } from "../../../api/policies/controls.ts";
import { invalid } from "../../../errors.ts";
import { textArea, textField } from "../../components/forms.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import type { Visit } from "../../page/page.ts";

type Written = { name: string; description: string | null; links: Readonly<Record<string, string>> };

/** @param control what is stored now; null for a new one */
export function controlFields(
  visit: Visit,
  { form, of, control }: { form: string; of: typeof postControl | typeof putControl; control: Written | null },
): Html {
  const links = Object.entries(control?.links ?? {}).map(([name, url]) => `${name} ${url}`);
  return html`${textField(visit, {
    form,
    name: "name",
    label: "Name",
    value: control?.name ?? "",
    of,
    hint: "What is required, such as: Releases are approved",
    isRequired: true,
  })}${textArea(visit, {
    form,
    name: "description",
    label: "Description",
    value: control?.description ?? "",
    of,
    hint: "How it is met, and by whom",
  })}${textArea(visit, {
    form,
    name: "links",
    label: "Links",
    value: links.join("\n"),
    rows: 3,
    hint: "One a line: a name without spaces, a space, and an address that begins with http:// or https://",
    placeholder: "handbook https://wiki.example.com/controls",
  })}`;
}

/** The body of the operation. @throws AppError invalid on `links`, with the first line that is not a link */
export function writtenControl(fields: Fields): { name: string; description: string; links: Record<string, string> } {
  const links: Record<string, string> = {};
  const lines = fields.text("links").split("\n");
  for (const [at, line] of lines.entries()) {
    if (line.trim() === "") continue;
    const [, name, url] = /^\s*(\S+)\s+(\S+)\s*$/.exec(line) ?? [];
    if (name === undefined || url === undefined)
      throw invalid({ links: `Line ${at + 1} is not a name and an address [input: ${line.trim().slice(0, 80)}]` });
    if (Object.hasOwn(links, name)) throw invalid({ links: `Line ${at + 1} repeats the name '${name}'` });
    Object.defineProperty(links, name, { value: url, enumerable: true, configurable: true, writable: true });
  }
  return { name: fields.text("name").trim(), description: fields.text("description").trim(), links };
}
