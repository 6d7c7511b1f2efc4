/** The messages of an action: what became of each, and sending one again. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listActionDeliveries, retryActionDelivery } from "../../../api/notifications/action-deliveries.ts";
import { readDeliverySubject } from "../../../domain/notification/delivery-subject.ts";
import { AppError } from "../../../errors.ts";
import { formOf, hiddenField, withoutRefusal } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { card, empty, nameCell, padded, table } from "../../components/layout.ts";
import { filterProblem, pager } from "../../components/lists.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { triggerWord } from "./action-form.ts";
import { targetWord } from "./target-fields.ts";

type DeliveryPage = AnswerOf<typeof listActionDeliveries>;
type Delivery = DeliveryPage["deliveries"][number];
type ActionPath = { action_number: string };

const PER_PAGE = 20;

/** What the list may be restricted to. */
const STATES = [
  { state: null, text: "All" },
  { state: "waiting", text: "Waiting" },
  { state: "delivered", text: "Delivered" },
  { state: "dead", text: "Given up" },
] as const;

export async function deliveryCard(visit: Visit, params: ActionPath): Promise<Html> {
  const { query, here } = visit;
  const chosen = STATES.find(({ state }) => state !== null && state === query.get("state")) ?? STATES[0];
  const { deliveries, next } = await readDeliveries(visit, params, chosen.state);
  const choices = STATES.map(
    ({ state, text }) =>
      html`<a class="btn btn-s" href="${here({ state, after: null })}"${
        state === chosen.state && html` aria-current="true"`
      }>${text}</a>`,
  );
  const all = STATES.map(({ state, text }) => ({ value: state ?? "", text, count: null }));
  const problem = filterProblem(visit, { kind: "state", name: "state", label: "State", choices: all });
  return html`${card({
    id: "h-deliveries",
    title: "Deliveries",
    note: "newest first",
    more: html`<span class="btn-group right" role="group" aria-label="State of deliveries">${choices}</span>`,
    body: html`${problem && padded(problem)}${
      deliveries.length === 0 ? nothing(chosen.state !== null) : deliveryTable(visit, deliveries)
    }`,
    foot: "Delivered messages are kept for 30 days.",
  })}${pager(visit, { next })}`;
}

/** A cursor that is none begins anew. */
async function readDeliveries(
  { call, query }: Visit,
  params: ActionPath,
  state: (typeof STATES)[number]["state"],
): Promise<DeliveryPage> {
  const read = (after: string | null) =>
    call(listActionDeliveries, { params, query: { state, per_page: PER_PAGE, after: after || null } });
  try {
    return await read(query.get("after"));
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "invalid") throw error;
    return read(null);
  }
}

const nothing = (isFiltered: boolean): Html =>
  isFiltered
    ? empty({ icon: "search", title: "No delivery matches", text: "Choose another state above." })
    : empty({
        icon: "mail",
        title: "No messages yet",
        text: "A message is sent when one of the events occurs. A test message shows whether the addresses are right.",
      });

function deliveryTable(visit: Visit, deliveries: readonly Delivery[]): Html {
  const mayRetry = visit.may(retryActionDelivery);
  return table({
    caption: "Deliveries",
    columns: [
      { text: "Message" },
      { text: "To", className: "w-to" },
      { text: "State" },
      { text: "Created", isRight: true, className: "hide-t" },
      ...(mayRetry ? [{ text: "Actions", isHidden: true }] : []),
    ],
    rows: deliveries.map((delivery) => deliveryRow(visit, { delivery, mayRetry })),
  });
}

function deliveryRow(visit: Visit, { delivery, mayRetry }: { delivery: Delivery; mayRetry: boolean }): Html {
  const { now, refused } = visit;
  const { id, subject, is_test, type, to, state } = delivery;
  const { words, place } = aboutOf(subject);
  const name = nameCell({
    href: null,
    name: html`<bdi>${words}</bdi>`,
    after: is_test && tag("test"),
    sub: html`${place !== null && html`<bdi>${place}</bdi> `}<span class="id" title="${id}">${id.slice(-12)}</span>`,
  });
  const isRefused = refused?.form === "retry" && refused.fields.text("delivery") === id;
  const retry =
    state !== "delivered" &&
    formOf(isRefused ? visit : withoutRefusal(visit), {
      name: "retry",
      submit: "Retry",
      isInline: true,
      fields: html`${hiddenField("delivery", id)}`,
    });
  return html`<tr>${name}<td class="fill"><bdi>${to}</bdi><div class="sub">${targetWord(type)}</div></td>
<td class="fill">${stateCell(delivery, now)}</td><td class="r hide-t">${time(delivery.created_at, now)}</td>
${mayRetry && html`<td class="r">${retry && html`<span class="row-actions">${retry}</span>`}</td>`}</tr>`;
}

/** What the message is about, in words, and where it happened. A test has neither: it is named by its subject. */
function aboutOf(subject: string): { words: string; place: string | null } {
  const { event, place } = readDeliverySubject(subject);
  const trigger = `ON_${event}`;
  const words = triggerWord(trigger);
  return words === trigger ? { words: subject, place: null } : { words, place };
}

/** The state with what came of the latest attempt. */
function stateCell(delivery: Delivery, now: number): Html {
  const { state, attempts, finished_at, next_attempt_at, last_status, last_error } = delivery;
  const tries = attempts === 1 ? "1\u00a0attempt" : `${attempts}\u00a0attempts`;
  // The error names the status, and the word Delivered says that it was a good one.
  const answer: Value = last_status !== null && last_error === null && `, status ${last_status}`;
  const error = last_error && html`<div class="sub"><bdi>${last_error}</bdi></div>`;
  if (state === "delivered")
    return html`<span class="st">${icon("check")}Delivered</span>
<div class="sub"><span>${time(finished_at, now)}</span></div>`;
  if (state === "dead")
    return html`<span class="st wait">${icon("x")}Given up</span>
<div class="sub"><span>${time(finished_at, now)}, ${tries}${answer}</span></div>${error}`;
  const isFirst = attempts === 0;
  const next = html`next ${time(next_attempt_at, now)}`;
  return html`<span class="st">${icon("clock")}Waiting</span><div class="sub"><span>${
    isFirst ? "not sent yet" : html`${tries}, ${next}${answer}`
  }</span></div>${!isFirst && error}`;
}
