/** Who is warned of API keys that expire soon. */
import type { AnswerOf } from "../../../http/in-process.ts";
import {
  deleteNotificationConfig,
  getNotificationConfig,
  putNotificationConfig,
} from "../../../api/notifications/notification-config.ts";
import { invalid } from "../../../errors.ts";
import { formOf } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { card, facts, padded } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form } from "../../page/page.ts";
import type { Form, Visit } from "../../page/page.ts";
import { readTargetFields, targetAddress, targetFields, targetWord, withTargetErrors } from "./target-fields.ts";

type Config = AnswerOf<typeof getNotificationConfig>;

const TYPE = { notification_type: "api_key_expiry" } as const;

export const keyWarningForms: Record<"warn" | "warn_defaults", Form> = {
  warn: form(putNotificationConfig, async ({ call, to }, fields) => {
    const targets = readTargetFields(fields);
    if (targets.length === 0) throw invalid({ webhooks: "Give at least one address, here or in a field below" });
    await withTargetErrors(targets, call(putNotificationConfig, { params: TYPE, body: { targets } }));
    return { go: to.settings("webhooks"), done: "saved" };
  }),
  warn_defaults: form(deleteNotificationConfig, async ({ call, to }) => {
    await call(deleteNotificationConfig, { params: TYPE });
    return { go: to.settings("webhooks"), done: "saved" };
  }),
};

export async function keyWarnings(visit: Visit): Promise<Html> {
  const config = await visit.call(getNotificationConfig, { params: TYPE });
  const mayChange = visit.may(putNotificationConfig);
  const isDefault = config.targets.length === 0;
  const restore =
    mayChange &&
    !isDefault &&
    html`<span class="right">${formOf(visit, {
      name: "warn_defaults",
      submit: "Restore the defaults",
      isInline: true,
      fields: null,
    })}</span>`;
  const edit =
    mayChange &&
    html`<details class="gap-t"${visit.refused?.form === "warn" && html` open`}><summary class="btn btn-s">${icon(
      "pencil",
    )}${isDefault ? "Choose recipients" : "Change recipients"}</summary><div class="gap-t">${formOf(visit, {
      name: "warn",
      submit: "Save recipients",
      isSecondary: true,
      fields: targetFields(visit, "warn", config.targets),
    })}</div></details>`;
  return card({
    id: "h-warnings",
    title: "Warnings of keys that expire",
    note: "14 days and 3 days ahead",
    more: restore,
    body: padded(html`${recipients(visit, config)}${edit}`),
  });
}

function recipients({ now }: Visit, { targets, last_notified_at, last_failure }: Config): Html {
  if (targets.length === 0)
    return html`<p>Administrators, and the person who created the key, get an e-mail. Keys of people are a matter of
their owners, who always get their own warnings.</p>`;
  const list = targets.map(
    (target) => html`<li>${tag(targetWord(target.type))} <bdi>${targetAddress(target)}</bdi></li>`,
  );
  return html`<ul class="target-list">${list}</ul>${facts([
    ["Last message", last_notified_at && time(last_notified_at, now)],
    ["Last failure", last_failure && html`${time(last_failure.failed_at, now)} <bdi>${last_failure.error}</bdi>`],
  ])}`;
}
