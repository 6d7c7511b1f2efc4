/** `/{org}/settings/retention`: how long trails and files are kept, and what must not be deleted. */
import type { AnswerOf } from "../../../http/in-process.ts";
import {
  deleteRetentionRule,
  listLegalHolds,
  listRetentionRules,
  placeLegalHold,
  putRetentionRule,
  releaseLegalHold,
} from "../../../api/accounts/retention.ts";
import { AppError, invalid } from "../../../errors.ts";
import { icon } from "../../components/icon.ts";
import { card, linkButton, padded, table } from "../../components/layout.ts";
import { pager, sliceOf } from "../../components/lists.ts";
import { formatNumber, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { askRelease, askRemoveRule, holdForm, ruleForm } from "./retention-forms.ts";
import type { RetentionRuleItem } from "./retention-forms.ts";
import { settingsContent } from "./settings-page.ts";

type Hold = AnswerOf<typeof listLegalHolds>["holds"][number];

const PER_PAGE = 25;

/** Days of a form; null for an empty field, NaN for anything else. */
const daysOf = (text: string): number | null => (text.trim() === "" ? null : Number(text));

export const retentionPage = page({
  path: "/{org}/settings/retention",
  show: showRetention,
  forms: {
    rule: form(putRetentionRule, async ({ call, to }, fields) => {
      const days = {
        trails: daysOf(fields.text("trails_after_days")),
        files: daysOf(fields.text("evidence_after_days")),
      };
      requireNumbers(days);
      const body = {
        flow: fields.optional("flow"),
        trails_after_days: days.trails,
        evidence_after_days: days.files,
      };
      await asScopeError(call(putRetentionRule, { body }));
      return { go: to.settings("retention"), done: "saved" };
    }),
    remove_rule: form(deleteRetentionRule, async ({ call, to }, fields) => {
      await call(deleteRetentionRule, { query: { flow: fields.optional("flow") } });
      return { go: to.settings("retention"), done: "removed" };
    }),
    hold: form(placeLegalHold, async ({ call, to }, fields) => {
      const body = {
        flow: fields.optional("flow"),
        trail: fields.optional("trail"),
        reason: fields.text("reason").trim(),
      };
      await asScopeError(call(placeLegalHold, { body }));
      return { go: to.settings("retention"), done: "added" };
    }),
    release: form(releaseLegalHold, async ({ call, to }, fields) => {
      await call(releaseLegalHold, { params: { hold_id: fields.text("hold") } });
      return { go: to.settings("retention"), done: "released" };
    }),
  },
});

/** JSON has no NaN: it would become null, which means "never". @throws AppError 400 */
function requireNumbers({ trails, files }: { trails: number | null; files: number | null }): void {
  const text = "Give a whole number of days, or leave it empty for never";
  const problems = {
    ...(Number.isNaN(trails) ? { trails_after_days: text } : {}),
    ...(Number.isNaN(files) ? { evidence_after_days: text } : {}),
  };
  if (Object.keys(problems).length > 0) throw invalid(problems);
}

/** Reports an unknown flow or trail at its field. */
async function asScopeError<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    throw invalid({ [error.message.includes("has no trail") ? "trail" : "flow"]: error.message });
  }
}

async function showRetention(visit: Visit): Promise<Content> {
  const { query, refused, call, may } = visit;
  const rules = await call(listRetentionRules);
  const ask = refused ? QUESTION_OF[refused.form] : query.get("ask");
  const flow = (refused ? refused.fields.text("flow") : (query.get("flow") ?? "")) || null;
  const hasRule = rules.some((rule) => rule.flow === flow);
  const questions: Readonly<Record<string, () => Html | false>> = {
    rule: () => may(putRetentionRule) && ruleForm(visit, rules.find((rule) => rule.flow === flow) ?? null),
    "new-rule": () => may(putRetentionRule) && ruleForm(visit, null),
    "remove-rule": () => may(deleteRetentionRule) && (refused !== null || hasRule) && askRemoveRule(visit, flow),
    hold: () => may(placeLegalHold) && holdForm(visit),
    release: () =>
      may(releaseLegalHold) && askRelease(visit, refused ? refused.fields.text("hold") : (query.get("hold") ?? "")),
  };
  const main = questions[ask ?? ""]?.() || html`${ruleCard(visit, rules)}${await holdCard(visit)}`;
  return settingsContent(visit, "retention", { main });
}

/** The question that a form answers. */
const QUESTION_OF: Readonly<Record<string, string>> = {
  rule: "rule",
  remove_rule: "remove-rule",
  hold: "hold",
  release: "release",
};

const days = (value: number | null): Html =>
  value === null
    ? html`<span class="muted">never</span>`
    : html`${formatNumber(value)} ${value === 1 ? "day" : "days"}`;

function ruleCard(visit: Visit, rules: readonly RetentionRuleItem[]): Html {
  const { here, query } = visit;
  const { rows: shown, position } = sliceOf(query, rules, PER_PAGE);
  const add = html`<span class="right">${linkButton(here({ ask: "new-rule" }), html`${icon("plus")}New rule`, {
    kind: "small",
  })}</span>`;
  const list =
    rules.length === 0
      ? padded(html`<p>Everything is kept. A rule says after how many days trails, or the files of their evidence, may
be deleted.</p>`)
      : table({
          caption: "Retention rules",
          columns: [
            { text: "For" },
            { text: "Files after", isRight: true },
            { text: "Trails after", isRight: true },
            { text: "Actions", isHidden: true },
          ],
          rows: shown.map((rule) => ruleRow(visit, rule)),
        });
  return html`${card({
    id: "h-rules",
    title: "Retention rules",
    more: add,
    body: list,
    foot: html`<p>Rules delete nothing by themselves: the operator of this server runs <code>assay retention
run</code>.</p>`,
  })}${pager(visit, position)}`;
}

function ruleRow({ here, to, org }: Visit, rule: RetentionRuleItem): Html {
  const { flow } = rule;
  const what = flow ?? org;
  const name =
    flow === null
      ? html`<span class="t-name">The organization</span><div class="sub">every flow without a rule of its own</div>`
      : html`<a class="t-name" href="${to.flow(flow)}"><bdi>${flow}</bdi></a><div class="sub">flow</div>`;
  const of = html`<span class="vh"> the rule of ${what}</span>`;
  return html`<tr><td class="full">${name}</td>
<td class="r num" data-l="Files after">${days(rule.evidence_after_days)}</td>
<td class="r num" data-l="Trails after">${days(rule.trails_after_days)}</td><td class="r"><span class="row-actions"><a
class="btn btn-s" href="${here({ ask: "rule", flow })}">Change${of}</a><a class="btn btn-s btn-danger"
href="${here({ ask: "remove-rule", flow })}">Remove${of}</a></span></td></tr>`;
}

async function holdCard(visit: Visit): Promise<Html> {
  const { call, query, here } = visit;
  const withReleased = query.get("holds") === "all";
  const { holds, next } = await readHolds(visit, call, withReleased);
  const toggle = withReleased
    ? linkButton(here({ holds: null, after: null }), "Only holds in force", { kind: "small" })
    : linkButton(here({ holds: "all", after: null }), "Show released holds", { kind: "small" });
  const place = linkButton(here({ ask: "hold" }), html`${icon("plus")}Place a hold`, { kind: "small" });
  const list =
    holds.length === 0
      ? padded(html`<p>${withReleased ? "There was never a hold." : "There is no hold in force."} Nothing under a legal
hold is deleted, whatever the rules say.</p>`)
      : table({
          caption: "Legal holds",
          columns: [
            { text: "On" },
            { text: "Reason" },
            { text: "Placed" },
            { text: "Released" },
            { text: "Actions", isHidden: true },
          ],
          rows: holds.map((hold) => holdRow(visit, hold)),
        });
  return html`${card({
    id: "h-holds",
    title: "Legal holds",
    more: html`<span class="row right">${toggle}${place}</span>`,
    body: list,
  })}${pager(visit, { next })}`;
}

/** A cursor that is none begins anew. */
async function readHolds({ query }: Visit, call: Visit["call"], withReleased: boolean) {
  const read = (after: string | null) =>
    call(listLegalHolds, { query: { with_released: withReleased, per_page: PER_PAGE, after } });
  try {
    return await read(query.get("after"));
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "invalid") throw error;
    return read(null);
  }
}

function holdRow({ here, to, now }: Visit, hold: Hold): Html {
  const { flow, trail } = hold;
  const on =
    flow === null
      ? html`<span class="t-name">The organization</span>`
      : trail === null
        ? html`<a class="t-name" href="${to.flow(flow)}"><bdi>${flow}</bdi></a><div class="sub">flow</div>`
        : html`<a class="t-name" href="${to.trail(flow, trail)}"><bdi>${trail}</bdi></a><div class="sub">trail of
<bdi>${flow}</bdi></div>`;
  const release =
    hold.released_at === null &&
    html`<a class="btn btn-s btn-danger" href="${here({ ask: "release", hold: hold.id })}">Release</a>`;
  const released =
    hold.released_at === null
      ? tag("in force", "lock")
      : html`${time(hold.released_at, now)}<div class="sub"><bdi>${hold.released_by}</bdi></div>`;
  return html`<tr><td class="lead">${on}</td><td class="fill"><bdi>${hold.reason}</bdi></td>
<td data-l="Placed">${time(hold.placed_at, now)}<div class="sub"><bdi>${hold.placed_by}</bdi></div></td>
<td>${released}</td><td class="r">${release && html`<span class="row-actions">${release}</span>`}</td></tr>`;
}
