/** A snapshot as a page: as the first tab of its environment, and at addresses of its own. */
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { linkButton, pageHead } from "../../components/layout.ts";
import { badge, stateOfVerdict, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Content, Visit } from "../../page/page.ts";
import type { ShownSnapshot } from "./artifact-rows.ts";
import { crumbsOf, environmentTabs, reported } from "./head.ts";
import type { Moment } from "./history.ts";
import { runningIn, snapshotView } from "./running.ts";
import { isArchived } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

/** @param live the environment while the latest snapshot is shown; null for one that does not change */
export async function snapshotPageOf(
  visit: Visit,
  {
    environment,
    snapshot,
    moment,
    live,
  }: {
    environment: ShownEnvironment;
    snapshot: ShownSnapshot;
    moment: Moment | null;
    live: { environment: string } | null;
  },
): Promise<Content> {
  const { index } = snapshot;
  const main = html`${snapshotHead(visit, environment, snapshot)}${environmentTabs(visit, environment, {
    current: "running",
    running: runningIn(snapshot),
  })}<div class="stack">${await snapshotView(visit, { environment, snapshot, moment })}</div>`;
  return {
    title: `${environment.name} #${index}`,
    crumb: `#${index}`,
    section: "environments",
    crumbs: crumbsOf(visit, environment),
    main,
    live: snapshot.is_latest ? live : null,
  };
}

/** `compliant` is false in the answer also where the verdict is unknown. */
function verdictOf(environment: ShownEnvironment, snapshot: ShownSnapshot): boolean | null {
  if (snapshot.is_latest) return environment.state;
  if (snapshot.compliant) return true;
  return snapshot.artifact_compliance_count.false > 0 ? false : null;
}

function snapshotHead(visit: Visit, environment: ShownEnvironment, snapshot: ShownSnapshot): Html {
  const { to, now } = visit;
  const { name } = environment;
  const { index, is_latest: isLatest, timestamp, user_name: user } = snapshot;
  const step = (target: number, isThere: boolean, text: Html): Html =>
    isThere
      ? html`<a class="btn" href="${to.snapshot(name, target)}" data-prefetch>${text}</a>`
      : html`<span class="btn" aria-disabled="true">${text}</span>`;
  const previous = step(index - 1, index > 1, html`${icon("chevron-left")}${index > 1 ? `#${index - 1}` : "Previous"}`);
  const next = step(index + 1, !isLatest, html`${isLatest ? "Next" : `#${index + 1}`}${icon("chevron-right")}`);
  const left = index > 1 ? `${name}#${index - 1}` : `${name}#${index}`;
  return pageHead({
    title: html`<bdi>${name}</bdi> <span class="muted">#${index}</span>`,
    state: html`${badge(stateOfVerdict(verdictOf(environment, snapshot)), { isLarge: true })}${
      isLatest ? tag("latest") : html`<a class="tag" href="${to.environment(name)}">show the latest</a>`
    }${isArchived(name) && tag("archived", "archive")}`,
    meta: [
      html`${typeIcon(environment.type)}${typeName(environment.type)}`,
      html`${icon("clock")}taken ${time(timestamp, now)}${user !== "" && html` by <bdi>${user}</bdi>`}`,
      isLatest ? reported(environment, now) : ended(snapshot, now),
    ],
    actions: [
      html`<span class="btn-group">${previous}${next}</span>`,
      linkButton(to.environmentDiff(left, `${name}#${index}`), "Compare", { icon: "git-compare" }),
      linkButton(to.whyArtifact(name, index, ""), "Why?", { icon: "question" }),
    ],
  });
}

const ended = ({ next_snapshot_timestamp: next }: ShownSnapshot, now: number): Html | null =>
  next === null ? null : html`${icon("history")}until ${time(next, now)}`;
