/** The form of an action: what it watches, which events, and where its messages go. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listEnvs } from "../../../api/environments/environments.ts";
import { getFlows } from "../../../api/flows/flows.ts";
import { putEnvironmentAction, putFlowAction } from "../../../api/notifications/actions.ts";
import type { getAction } from "../../../api/notifications/actions.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS } from "../../../domain/notification/triggers.ts";
import type { EnvironmentTrigger, FlowTrigger } from "../../../domain/notification/triggers.ts";
import { invalid } from "../../../errors.ts";
import { checkboxGroup } from "../../components/checkbox-group.ts";
import { formOf, hiddenField, selectField, textArea, textField } from "../../components/forms.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import type { Visit } from "../../page/page.ts";
import { isKnownTarget, readTargetFields, targetFields, withTargetErrors } from "./target-fields.ts";
import type { SentTarget, ShownTarget } from "./target-fields.ts";

export type Action = AnswerOf<typeof getAction>;
type ActionKind = "env" | "flow";

type Trigger = EnvironmentTrigger | FlowTrigger;

const TRIGGER_WORDS: Readonly<Record<Trigger, string>> = {
  ON_STARTED_ARTIFACT: "An artifact starts",
  ON_EXITED_ARTIFACT: "An artifact stops",
  ON_SCALED_ARTIFACT: "The verdict of a running artifact changes",
  ON_ALLOWED_ARTIFACT: "An artifact is allowlisted",
  ON_ALLOWLIST_EXPIRY: "An allowlist entry ends in three days",
  ON_NON_COMPLIANT_ENV: "The environment becomes non-compliant",
  ON_COMPLIANT_ENV: "The environment becomes compliant again",
  ON_DAILY_CHANGES: "Every day: what changed, if anything did",
  ON_STARTED_TRAIL: "A trail begins",
  ON_ATTESTED_PROVENANCE: "An artifact is reported",
  ON_ATTESTATION: "An attestation is reported",
  ON_APPROVAL: "An approval (never occurs)",
  ON_RELEASE: "A release (never occurs)",
};
/** Accepted for old clients. */
const SILENT: readonly string[] = ["ON_APPROVAL", "ON_RELEASE"];

/** A trigger in words; an unknown one as it is. */
export const triggerWord = (trigger: string): string =>
  Object.hasOwn(TRIGGER_WORDS, trigger) ? TRIGGER_WORDS[trigger as Trigger] : trigger;

/** Names up to which they are boxes to check; more are typed. */
const MAX_BOXES = 40;

export const actionKind = (text: string | null): ActionKind => (text === "flow" ? "flow" : "env");
const placesField = (kind: ActionKind): "environments" | "flows" => (kind === "env" ? "environments" : "flows");
const placesOf = (action: Action | null): readonly string[] => action?.environments ?? action?.flows ?? [];

/** The names of the environments or flows, if they are few; null otherwise. */
async function namesOf({ call }: Visit, kind: ActionKind): Promise<string[] | null> {
  const window = { page: 1, per_page: MAX_BOXES + 1 };
  const answer =
    kind === "env"
      ? await call(listEnvs, { query: window })
      : await call(getFlows, { query: { ...window, sort: "name" } });
  const rows = Array.isArray(answer) ? answer : "environments" in answer ? answer.environments : answer.data;
  return rows.length > MAX_BOXES ? null : rows.map(({ name }) => name);
}

/** @param action the action to change; null for a new one */
export async function actionForm(
  visit: Visit,
  { kind, action, cancel }: { kind: ActionKind; action: Action | null; cancel: string },
): Promise<Html> {
  const form = "put";
  const name =
    action === null
      ? textField(visit, {
          form,
          name: "name",
          label: "Name",
          of: putEnvironmentAction,
          placeholder: kind === "env" ? "production-alerts" : "builds",
          hint: "Unique in the organization; it cannot be changed later",
        })
      : hiddenField("name", action.name);
  const triggers = (kind === "env" ? ENVIRONMENT_TRIGGERS : FLOW_TRIGGERS).filter(
    (trigger) => !SILENT.includes(trigger) || action?.triggers.includes(trigger),
  );
  const fields = html`${hiddenField("kind", kind)}${name}${await placeFields(visit, { kind, action })}${checkboxGroup(
    visit,
    {
      form,
      name: "triggers",
      legend: "Send a message when",
      choices: triggers.map((value) => ({ value, text: TRIGGER_WORDS[value] })),
      checked: action?.triggers ?? (kind === "env" ? ["ON_NON_COMPLIANT_ENV", "ON_COMPLIANT_ENV"] : []),
    },
  )}${kind === "env" && dailyFields(visit, action)}<h3>Where messages go</h3>${targetFields(
    visit,
    form,
    (action?.targets ?? []) as ShownTarget[],
  )}`;
  return formOf(visit, { name: form, submit: action === null ? "Create action" : "Save action", fields, cancel });
}

const HOURS = Array.from({ length: 24 }, (_, hour) => ({
  value: String(hour),
  text: `${String(hour).padStart(2, "0")}:00`,
}));

/** When the message of every day is sent: asked for where its event is chosen. */
function dailyFields(visit: Visit, action: Action | null): Html {
  const { hour, time_zone: zone } = action?.daily_at ?? { hour: 6, time_zone: "UTC" };
  return html`<div class="form daily"><h3>Every day</h3>${selectField(visit, {
    form: "put",
    name: "daily_at.hour",
    label: "Hour of the message",
    choices: HOURS,
    value: String(hour),
  })}${textField(visit, {
    form: "put",
    name: "daily_at.time_zone",
    label: "Time zone",
    value: zone,
    hint: "A name such as Europe/Berlin, or UTC. Summer time is followed.",
    isRequired: false,
  })}</div>`;
}

async function placeFields(visit: Visit, { kind, action }: { kind: ActionKind; action: Action | null }): Promise<Html> {
  const names = await namesOf(visit, kind);
  const what = kind === "env" ? "Environments" : "Flows";
  const present = placesOf(action);
  if (names === null)
    return textArea(visit, {
      form: "put",
      name: placesField(kind),
      label: what,
      value: present.join("\n"),
      rows: 4,
      hint: "One name a line",
    });
  // Names that are not listed, such as archived ones, stay.
  const all = [...names, ...present.filter((name) => !names.includes(name))];
  if (all.length === 0)
    return html`<p class="hint">${what}: there are none yet. Create one first, and then its action.</p>`;
  return checkboxGroup(visit, {
    form: "put",
    name: placesField(kind),
    legend: what,
    choices: all.map((name) => ({ value: name, text: name })),
    checked: present,
  });
}

/** Creates or replaces an action. @param before the action as it was; null for a new one @throws AppError */
export async function submitAction({ call }: Visit, fields: Fields, before: Action | null): Promise<void> {
  const kind = actionKind(before?.type ?? fields.text("kind"));
  const field = placesField(kind);
  const names = [...new Set(fields.list(field).flatMap((text) => text.split("\n")))].map((name) => name.trim());
  const places = names.filter((name) => name !== "");
  const sent = readTargetFields(fields);
  const targets = mergeTargets(sent, (before?.targets ?? []) as ShownTarget[]);
  const name = before?.name ?? fields.text("name").trim();
  const triggers = fields.list("triggers");
  requireAll({ name: name.length, [field]: places.length, triggers: triggers.length, webhooks: targets.length });
  const shared = { name, triggers: triggers as never, targets };
  const answer =
    kind === "env"
      ? call(putEnvironmentAction, { body: { ...shared, ...dailyOf(fields), environments: places } })
      : call(putFlowAction, { body: { ...shared, flows: places } });
  await withTargetErrors(targets, answer);
}

/** A form without the fields, such as one that was kept, asks for the default. */
function dailyOf(fields: Fields): { daily_at?: { hour: number; time_zone?: string } } {
  const hour = fields.text("daily_at.hour");
  const zone = fields.text("daily_at.time_zone").trim();
  return hour === "" ? {} : { daily_at: { hour: Number(hour), ...(zone === "" ? {} : { time_zone: zone }) } };
}

const MISSING: Readonly<Record<string, string>> = {
  name: "Field required",
  environments: "Choose at least one environment",
  flows: "Choose at least one flow",
  triggers: "Choose at least one event",
  webhooks: "Give at least one address, here or in a field below",
};

/** An action that lacks one of these would never send anything. @throws AppError 400 */
function requireAll(counts: Readonly<Record<string, number>>): void {
  const missing = Object.keys(counts).filter((name) => counts[name] === 0);
  if (missing.length > 0) throw invalid(Object.fromEntries(missing.map((name) => [name, MISSING[name] as string])));
}

/** What the form does not show stays: the channel of a chat, and targets of other types. */
function mergeTargets(
  sent: readonly SentTarget[],
  before: readonly ShownTarget[],
): (SentTarget & { context?: never })[] {
  const merged = sent.map((target) => {
    const known = before.find(
      ({ type, webhook }) => type === "SLACK" && target.type === "SLACK" && webhook === target.webhook,
    );
    return known?.["context"] ? { ...target, context: known["context"] } : target;
  });
  return [...merged, ...before.filter((target) => !isKnownTarget(target))] as (SentTarget & { context?: never })[];
}
