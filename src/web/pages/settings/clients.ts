/** `/{org}/settings/clients`: what clients sent that this server does not know. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listUnknownInputs } from "../../../api/accounts/unknown-inputs.ts";
import { card, empty, table } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { timestamp } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import { settingsContent } from "./settings-page.ts";

type Input = AnswerOf<typeof listUnknownInputs>[number];

export const clientsPage = page({
  path: "/{org}/settings/clients",
  async show(visit) {
    const inputs = await visit.call(listUnknownInputs);
    return settingsContent(visit, "clients", {
      main: html`<p>A newer client may send fields that this server does not know. They are ignored, so that its reports
still arrive, and listed here. Routes and kinds of attestations that it asks for are refused. A newer Assay may know
them.</p>${card({
        id: "h-inputs",
        title: "Unknown to this server",
        note: "at most 90 days old",
        body: inputs.length === 0 ? NOTHING : inputTable(inputs),
      })}`,
    });
  },
});

const NOTHING = empty({
  icon: "check",
  title: "Nothing unknown",
  text: "Everything that clients sent lately is known to this server. What they send now shows after a minute.",
});

const KINDS = { key: "ignored field", route: "refused route", attestation_kind: "refused kind" } as const;

const inputTable = (inputs: readonly Input[]): Html =>
  table({
    caption: "What clients sent that this server does not know",
    columns: [
      { text: "Client" },
      { text: "What" },
      { text: "Operation" },
      { text: "Times", isRight: true },
      { text: "Last", isRight: true },
    ],
    rows: inputs.map(
      ({ client, kind, operation, name, count, last_at: last }) =>
        html`<tr><td class="lead"><bdi>${client === "other" ? "other clients" : client}</bdi></td>
<td data-l="What">${tag(KINDS[kind])} <bdi>${name}</bdi></td>
<td class="fill"><bdi>${operation}</bdi></td>
<td class="r" data-l="Times">${count.toLocaleString("en-US")}</td><td class="r">${timestamp(last)}</td></tr>`,
    ),
  });
