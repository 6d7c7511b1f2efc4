/** `/{org}/actions/{number}`: one action, and what became of its messages. */
import { listActionDeliveries, retryActionDelivery, testAction } from "../../../api/notifications/action-deliveries.ts";
import { deleteAction, getAction, putEnvironmentAction } from "../../../api/notifications/actions.ts";
import { formOf } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { card, facts, linkButton, padded, pageHead } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { deliveryCard } from "./action-deliveries.ts";
import { formatDailyTime } from "../../../domain/notification/daily-time.ts";
import { actionForm, actionKind, submitAction, triggerWord } from "./action-form.ts";
import type { Action } from "./action-form.ts";
import { lastMessage } from "./actions.ts";
import { targetAddress, targetWord } from "./target-fields.ts";
import type { ShownTarget } from "./target-fields.ts";

const pathOf = ({ params }: Visit): { action_number: string } => ({ action_number: params["number"] ?? "" });
const addressOf = ({ to, params }: Visit): string => to.action(params["number"] ?? "");

export const actionPage = page({
  path: "/{org}/actions/{number}",
  async show(visit) {
    const { call, query, refused, may, to } = visit;
    const action = await call(getAction, { params: pathOf(visit) });
    const ask = refused ? refused.form : query.get("ask");
    const mayChange = may(putEnvironmentAction);
    const body =
      mayChange && (ask === "edit" || ask === "put")
        ? await edit(visit, action)
        : may(deleteAction) && ask === "delete"
          ? askDelete(visit, action)
          : await detail(visit, action);
    return {
      title: action.name,
      section: "actions",
      crumbs: [{ text: "Actions", href: to.actions() }],
      main: html`${head(visit, action)}<div class="stack">${body}</div>`,
    };
  },
  forms: {
    put: form(putEnvironmentAction, async (visit, fields) => {
      const before = await visit.call(getAction, { params: pathOf(visit) });
      await submitAction(visit, fields, before);
      return { go: addressOf(visit), done: "saved" };
    }),
    test: form(testAction, async (visit) => {
      await visit.call(testAction, { params: pathOf(visit) });
      return { go: addressOf(visit), done: "sent" };
    }),
    retry: form(retryActionDelivery, async (visit, fields) => {
      await visit.call(retryActionDelivery, { params: { ...pathOf(visit), delivery_id: fields.text("delivery") } });
      return { go: addressOf(visit), done: "retried" };
    }),
    delete: form(deleteAction, async (visit) => {
      await visit.call(deleteAction, { params: pathOf(visit) });
      return { go: visit.to.actions(), done: "deleted" };
    }),
  },
});

function head(visit: Visit, action: Action): Html {
  const { may, here, now } = visit;
  return pageHead({
    title: html`<bdi>${action.name}</bdi>`,
    state: [
      tag(action.type === "env" ? "environment action" : "flow action"),
      action.is_failing && html`<span class="badge wait">${icon("alert")}failing</span>`,
    ],
    meta: [
      html`created ${time(action.created_at, now)} by <bdi>${action.created_by}</bdi>`,
      html`changed ${time(action.last_modified_at, now)}`,
    ],
    actions: [
      may(putEnvironmentAction) && linkButton(here({ ask: "edit", after: null }), "Edit", { icon: "pencil" }),
      may(deleteAction) &&
        linkButton(here({ ask: "delete", after: null }), "Delete", { icon: "trash", kind: "danger" }),
    ],
  });
}

async function detail(visit: Visit, action: Action): Promise<Html> {
  const { may, to, now, role } = visit;
  const places = action.environments ?? action.flows ?? [];
  const hrefOf = action.type === "env" ? to.environment : to.flow;
  const links = places.map((name) => html`<li><a href="${hrefOf(name)}"><bdi>${name}</bdi></a></li>`);
  const watched = card({
    id: "h-watches",
    title: "What it watches",
    body: padded(
      facts([
        [action.type === "env" ? "Environments" : "Flows", html`<ul>${links}</ul>`],
        ["Events", html`<ul>${action.triggers.map((trigger) => html`<li>${triggerWord(trigger)}</li>`)}</ul>`],
        [
          "Every day",
          action.daily_at && formatDailyTime({ hour: action.daily_at.hour, timeZone: action.daily_at.time_zone }),
        ],
        ["Last message", lastMessage(action, now)],
      ]),
    ),
  });
  const test =
    may(testAction) &&
    html`<span class="right">${formOf(visit, {
      name: "test",
      submit: "Send a test message",
      isInline: true,
      fields: null,
    })}</span>`;
  const targets = card({
    id: "h-targets",
    title: "Where messages go",
    more: test,
    body:
      role === null
        ? padded(html`<p>Only members see the addresses.</p>`)
        : html`<ul class="rows">${(action.targets as ShownTarget[]).map((target) => targetRow(target, now))}</ul>`,
  });
  return html`<div class="cols-half">${watched}${targets}</div>${
    may(listActionDeliveries) && (await deliveryCard(visit, pathOf(visit)))
  }`;
}

const secondsOf = (value: unknown): number | null => (typeof value === "number" ? value : null);

function targetRow(target: ShownTarget, now: number): Html {
  const [success, failure] = [secondsOf(target["last_success_at"]), secondsOf(target["last_failure_at"])];
  const isFailing = failure !== null && (success === null || failure > success);
  const state = isFailing
    ? html`<span class="st wait">${icon("alert")}failed ${time(failure, now)}</span>`
    : success === null
      ? html`<span class="sub">no message yet</span>`
      : html`<span class="sub">delivered ${time(success, now)}</span>`;
  return html`<li>${tag(targetWord(target["type"]))}<div class="grow"><bdi>${targetAddress(target)}</bdi></div>
${state}</li>`;
}

async function edit(visit: Visit, action: Action): Promise<Html> {
  const body = await actionForm(visit, { kind: actionKind(action.type), action, cancel: addressOf(visit) });
  return card({ id: "h-edit", title: "Edit this action", body: padded(body) });
}

function askDelete(visit: Visit, action: Action): Html {
  const fields = html`<p>Messages of <b><bdi>${action.name}</bdi></b> that wait are not sent, and its deliveries are no
longer listed.</p>`;
  const ask = formOf(visit, {
    name: "delete",
    submit: "Delete this action",
    isDanger: true,
    cancel: addressOf(visit),
    fields,
  });
  return card({ id: "h-delete", title: "Delete this action?", body: padded(ask) });
}
