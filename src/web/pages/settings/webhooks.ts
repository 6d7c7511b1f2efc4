/** `/{org}/settings/webhooks`: what other products report here, and who is warned of keys that expire. */
import type { AnswerOf } from "../../../http/in-process.ts";
import {
  deleteInboundWebhook,
  listInboundWebhooks,
  putInboundWebhook,
  rotateInboundWebhookSecret,
} from "../../../api/notifications/inbound-webhook-settings.ts";
import { getOrganization } from "../../../api/accounts/organizations.ts";
import { formOf, hiddenField, secretBox, selectField, textField } from "../../components/forms.ts";
import { copyButton } from "../../components/identifier.ts";
import { card, empty, facts, padded } from "../../components/layout.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { keyWarnings, keyWarningForms } from "./key-warnings.ts";
import { settingsContent } from "./settings-page.ts";

type Hook = AnswerOf<typeof listInboundWebhooks>[number];

/** The products, by the kind of their webhooks. */
const KINDS = [
  { kind: "sonar", name: "SonarQube", text: "The quality gate of each analysis becomes an attestation of its commit." },
  { kind: "launch-darkly", name: "LaunchDarkly", text: "Each change of a feature flag is recorded as a trail." },
] as const;
type Kind = (typeof KINDS)[number];

const kindOf = (text: string): Kind | null => KINDS.find(({ kind }) => kind === text) ?? null;

type Shown = { kind: string; secret: string };

export const webhooksPage = page({
  path: "/{org}/settings/webhooks",
  show: (visit) => showWebhooks(visit, null),
  forms: {
    ...Object.fromEntries(KINDS.map(({ kind }) => [`put_${kind}`, form(putInboundWebhook, putWebhook)])),
    rotate: form(rotateInboundWebhookSecret, async (visit, fields) => {
      const kind = fields.text("kind");
      const { secret } = await visit.call(rotateInboundWebhookSecret, { params: { webhook_kind: kind } });
      return { once: await showWebhooks(visit, { kind, secret }) };
    }),
    remove: form(deleteInboundWebhook, async ({ call, to }, fields) => {
      await call(deleteInboundWebhook, { params: { webhook_kind: fields.text("kind") } });
      return { go: to.settings("webhooks"), done: "deleted" };
    }),
    ...keyWarningForms,
  },
});

async function putWebhook(visit: Visit, fields: Fields) {
  const kind = fields.text("kind");
  const { call, to } = visit;
  const body =
    kind === "sonar"
      ? {
          flow_name: fields.text("flow_name") as "key" | "name",
          flow_prefix: fields.text("flow_prefix").trim(),
          flow_suffix: fields.text("flow_suffix").trim(),
        }
      : {};
  const answer = await call(putInboundWebhook, { params: { webhook_kind: kind }, body });
  if (!("secret" in answer)) return { go: to.settings("webhooks"), done: "saved" } as const;
  return { once: await showWebhooks(visit, { kind, secret: answer.secret }) };
}

/** @param shown the secret that was just made; null without one */
async function showWebhooks(visit: Visit, shown: Shown | null): Promise<Content> {
  const { may, query, refused } = visit;
  const asked = refused ? refused.form : query.get("ask");
  const kind = kindOf(refused ? refused.fields.text("kind") : (query.get("kind") ?? ""));
  if (shown === null && kind !== null && may(deleteInboundWebhook)) {
    if (asked === "rotate") return settingsContent(visit, "webhooks", { main: askRotate(visit, kind) });
    if (asked === "remove") return settingsContent(visit, "webhooks", { main: askRemove(visit, kind) });
  }
  const main = html`${may(listInboundWebhooks) && (await inbound(visit, shown))}${await keyWarnings(visit)}`;
  return settingsContent(visit, "webhooks", { main });
}

async function inbound(visit: Visit, shown: Shown | null): Promise<Html> {
  const { kind: organization } = await visit.call(getOrganization);
  if (organization === "personal")
    return html`<section class="card">${empty({
      icon: "webhook",
      title: "A personal organization accepts no webhooks",
      text: "What arrives is recorded by a service account, which only shared organizations have.",
    })}</section>`;
  const hooks = await visit.call(listInboundWebhooks);
  return html`${KINDS.map((product) => {
    const hook = hooks.find(({ kind }) => kind === product.kind);
    const secret = shown?.kind === product.kind ? shown.secret : null;
    return hook ? enabled(visit, product, { hook, secret }) : disabled(visit, product);
  })}`;
}

const disabled = (visit: Visit, { kind, name, text }: Kind): Html =>
  card({
    id: `h-${kind}`,
    title: `From ${name}`,
    note: "off",
    body: padded(
      html`<p class="gap-b">${text}</p>${formOf(visit, {
        name: `put_${kind}`,
        submit: `Accept webhooks of ${name}`,
        isSecondary: true,
        fields: html`${hiddenField("kind", kind)}${kind === "sonar" && sonarFields(visit, {})}`,
      })}`,
    ),
  });

function enabled(visit: Visit, product: Kind, { hook, secret }: { hook: Hook; secret: string | null }): Html {
  const { now, to, here } = visit;
  const { kind, name } = product;
  const box =
    secret !== null &&
    html`<div class="gap-b">${secretBox({
      title: `The secret of the ${name} webhook`,
      secret,
      what: "secret",
      more: html`<p class="sub gap-t2">Enter it in ${name} together with the address below.</p>`,
    })}</div>`;
  const account = hook.service_account;
  const received =
    hook.last_received_at === null ? html`<span class="muted">never</span>` : time(hook.last_received_at, now);
  const known = facts([
    ["Address", html`<span class="row"><code>${hook.url}</code>${copyButton(hook.url, "the address")}</span>`],
    ["Recorded by", account && html`<a href="${to.serviceAccount(account)}">${account}</a>`],
    ["Last received", received],
    ["Created", time(hook.created_at, now)],
  ]);
  const settings =
    kind === "sonar" &&
    html`<div class="gap-t">${formOf(visit, {
      name: `put_${kind}`,
      submit: "Save",
      isSecondary: true,
      fields: html`${hiddenField("kind", kind)}${sonarFields(visit, hook.settings)}`,
    })}</div>`;
  const ask = (question: string): string => here({ ask: question, kind });
  return card({
    id: `h-${kind}`,
    title: `From ${name}`,
    more: html`<span class="row right"><a class="btn btn-s" href="${ask("rotate")}">Replace secret<span class="vh"> of
${name}</span></a><a class="btn btn-s btn-danger" href="${ask("remove")}">Turn off<span
class="vh"> ${name}</span></a></span>`,
    body: padded(html`${box}${known}${settings}`),
  });
}

function sonarFields(visit: Visit, settings: Readonly<Record<string, string>>): Html {
  const text = (name: "flow_prefix" | "flow_suffix", { label, hint }: { label: string; hint: string }): Html =>
    textField(visit, { form: "put_sonar", name, label, value: settings[name] ?? "", of: putInboundWebhook, hint });
  return html`${selectField(visit, {
    form: "put_sonar",
    name: "flow_name",
    label: "Flow, where an analysis names none",
    value: settings["flow_name"] ?? "key",
    choices: [
      { value: "key", text: "Named after the key of the project" },
      { value: "name", text: "Named after the project" },
    ],
  })}<div class="form-pair form-even">${text("flow_prefix", {
    label: "Put before this name",
    hint: "With sonar- the flow of the project shop is sonar-shop",
  })}${text("flow_suffix", { label: "Put after it", hint: "Letters, digits and - _ . ~" })}</div>`;
}

function askRotate(visit: Visit, { kind, name }: Kind): Html {
  const fields = html`<p>The present secret is refused at once. Until the new one is entered in ${name}, what it sends
is not recorded.</p>${hiddenField("kind", kind)}`;
  const cancel = visit.to.settings("webhooks");
  return card({
    id: "h-rotate",
    title: `Replace the secret of the ${name} webhook?`,
    body: padded(formOf(visit, { name: "rotate", submit: "Replace secret", fields, cancel })),
  });
}

function askRemove(visit: Visit, { kind, name }: Kind): Html {
  const fields = html`<p>The address stops working at once and for good. What ${name} reported stays, and so does the
service account, which can then be deleted.</p>${hiddenField("kind", kind)}`;
  const cancel = visit.to.settings("webhooks");
  const ask = formOf(visit, { name: "remove", submit: `Turn off ${name}`, isDanger: true, fields, cancel });
  return card({ id: "h-remove", title: `Turn off webhooks of ${name}?`, body: padded(ask) });
}
