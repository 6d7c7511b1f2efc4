/** `/{org}/actions`: the messages that events send, and the form that creates one. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listActions, putEnvironmentAction } from "../../../api/notifications/actions.ts";
import { AppError, invalid } from "../../../errors.ts";
import { icon } from "../../components/icon.ts";
import { card, nameCell, padded, pageHead, tabs } from "../../components/layout.ts";
import { listPage } from "../../components/list-page.ts";
import { sliceOf } from "../../components/lists.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { actionForm, actionKind, submitAction, triggerWord } from "./action-form.ts";
import { targetWord } from "./target-fields.ts";

type ListedAction = AnswerOf<typeof listActions>[number];

export const actionsPage = page({
  path: "/{org}/actions",
  show: (visit) =>
    visit.may(putEnvironmentAction) && (visit.query.get("ask") === "create" || visit.refused?.form === "put")
      ? showCreation(visit)
      : showList(visit),
  forms: {
    put: form(putEnvironmentAction, async (visit, fields) => {
      const name = fields.text("name").trim();
      const taken = (await visit.call(listActions)).some((action) => action.name === name);
      if (taken) throw invalid({ name: `An action with this name already exists [input: ${name}]` });
      await submitAction(visit, fields, null);
      const created = (await visit.call(listActions)).find((action) => action.name === name);
      if (!created) throw new AppError("conflict", "The action was deleted meanwhile");
      return { go: visit.to.action(created.number), done: "created" };
    }),
  },
});

async function showCreation(visit: Visit): Promise<Content> {
  const { to, query, refused } = visit;
  const kind = actionKind(refused?.form === "put" ? refused.fields.text("kind") : query.get("type"));
  const link = (type: "env" | "flow", text: string) => ({
    text,
    href: to.actions({ ask: "create", type }),
    isCurrent: kind === type,
  });
  const body = await actionForm(visit, { kind, action: null, cancel: to.actions() });
  return {
    title: "New action",
    section: "actions",
    crumbs: [{ text: "Actions", href: to.actions() }],
    crumb: "New",
    main: html`${pageHead({ title: "New action", sub: "An action sends a message when something happens." })}${tabs(
      "What the action watches",
      [link("env", "Environments"), link("flow", "Flows")],
    )}${card({ id: "h-new", title: kind === "env" ? "Environment action" : "Flow action", body: padded(body) })}`,
  };
}

const showList = listPage({
  title: "Actions",
  section: "actions",
  sub: "Messages to webhooks, Slack and mailboxes about what happens in environments and flows.",
  create: { operation: putEnvironmentAction, text: "New action" },
  what: ["action", "actions"],
  async read({ call, query }) {
    const search = (query.get("search") ?? "").trim().toLowerCase();
    return sliceOf(
      query,
      (await call(listActions)).filter(({ name }) => name.toLowerCase().includes(search)),
    );
  },
  filters: [{ kind: "search", name: "search", label: "Search by name" }],
  columns: [{ text: "Name" }, { text: "Watches" }, { text: "Sends to" }, { text: "Last message", isRight: true }],
  row: actionRow,
  empty: {
    icon: "zap",
    title: "No actions yet",
    text: "An action tells a team what happens: an environment becomes non-compliant, or an allowlist entry ends.",
  },
  none: "The search looks for a part of the name.",
});

function actionRow({ to, now }: Visit, action: ListedAction): Html {
  const places = action.environments ?? action.flows ?? [];
  const name = nameCell({
    href: to.action(action.number),
    name: html`<bdi>${action.name}</bdi>`,
    sub: summary(action.triggers.map(eventOfSeveral), 2),
    mark: icon("zap"),
  });
  const targets = [...new Set(action.targets.map(({ type }) => targetWord(type)))];
  const kind = `${action.type === "env" ? "environment" : "flow"}${places.length === 1 ? "" : "s"}`;
  return html`<tr>${name}<td class="fill"><bdi>${summary(places.map(place), 3)}</bdi><div class="sub">${kind}</div></td>
<td class="nowrap fill" data-l="To">${targets.join(", ")}</td>
<td class="r">${lastMessage(action, now)}</td></tr>`;
}

/** `An artifact starts, an artifact stops`: a sentence begins once. */
function eventOfSeveral(trigger: string, at: number): Html {
  const words = triggerWord(trigger);
  return html`${at === 0 || words === trigger ? words : `${words[0]?.toLowerCase() ?? ""}${words.slice(1)}`}`;
}

/** A name goes to the next line as a whole. */
const place = (name: string): Html => html`<bdi class="whole">${name}</bdi>`;

/** The first of several, and how many more there are. */
function summary(texts: readonly Html[], shown: number): Html {
  const more = texts.length - shown;
  const first = texts.slice(0, shown).map((text, at) => html`${at > 0 && ", "}${text}`);
  return html`${first}${more > 0 && ` and ${more} more`}`;
}

/** How the latest messages went. */
export function lastMessage(
  action: Pick<ListedAction, "is_failing" | "last_success_timestamp" | "last_failure_timestamp">,
  now: number,
): Html {
  const { is_failing, last_success_timestamp: success, last_failure_timestamp: failure } = action;
  if (is_failing) return html`<span class="st wait">${icon("alert")}failed ${time(failure, now)}</span>`;
  return success === null ? html`<span class="muted">none yet</span>` : time(success, now);
}
