/** A snapshot as a page: as the first tab of its environment, and at addresses of its own. */
import { binderButton } from "../binder/binder-link.ts";
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
import type { PastEnvironment } from "./past.ts";
import { runningIn, snapshotView } from "./running.ts";
import { isArchived } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

/**
 * @param live the environment while the latest snapshot is shown; null for one that does not change
 * @param past the environment as of the moment that is shown; null for the present
 */
export async function snapshotPageOf(
  visit: Visit,
  {
    environment,
    snapshot,
    live,
    past,
  }: {
    environment: ShownEnvironment;
    snapshot: ShownSnapshot;
    live: { environment: string } | null;
    past: PastEnvironment | null;
  },
): Promise<Content> {
  const { index } = snapshot;
  const main = html`${snapshotHead(visit, { environment, snapshot, past })}${environmentTabs(visit, environment, {
    current: "running",
    running: runningIn(snapshot),
  })}<div class="stack">${await snapshotView(visit, { environment, snapshot })}</div>`;
  return {
    title: `${environment.name} #${index}`,
    crumb: `#${index}`,
    section: "environments",
    crumbs: crumbsOf(visit, environment),
    main,
    live: snapshot.is_latest ? live : null,
    timePath: `/${visit.org}/environments/${encodeURIComponent(environment.name)}`,
    compareWithNow: visit.toNow.environmentDiff(`${environment.name}#${index}`, environment.name),
    moments: index > 1 ? [{ text: `Before #${index}`, at: Math.max(0, snapshot.timestamp - 1) }] : [],
  };
}

/** `compliant` is false in the answer also where the verdict is unknown. */
function verdictOf({ environment, snapshot, past }: Shown): boolean | null {
  if (snapshot.is_latest && past === null) return environment.state;
  if (snapshot.compliant) return true;
  return snapshot.artifact_compliance_count.false > 0 ? false : null;
}

type Shown = { environment: ShownEnvironment; snapshot: ShownSnapshot; past: PastEnvironment | null };

function snapshotHead(visit: Visit, shown: Shown): Html {
  const { to, now } = visit;
  const { environment, snapshot, past } = shown;
  const { name } = environment;
  const { index, timestamp, user_name: user } = snapshot;
  const isLatest = past === null ? snapshot.is_latest : index === past.snapshot_index;
  const step = (target: number, isThere: boolean, text: Html): Html =>
    isThere
      ? html`<a class="btn" href="${to.snapshot(name, target)}" data-prefetch>${text}</a>`
      : html`<span class="btn" aria-disabled="true">${text}</span>`;
  const previous = step(index - 1, index > 1, html`${icon("chevron-left")}${index > 1 ? `#${index - 1}` : "Previous"}`);
  const next = step(index + 1, !isLatest, html`${isLatest ? "Next" : `#${index + 1}`}${icon("chevron-right")}`);
  const left = index > 1 ? `${name}#${index - 1}` : `${name}#${index}`;
  return pageHead({
    title: html`<bdi>${name}</bdi> <span class="muted">#${index}</span>`,
    state: html`${badge(stateOfVerdict(verdictOf(shown)), { isLarge: true })}${
      isLatest
        ? tag(past === null ? "latest" : "in force then")
        : html`<a href="${to.environment(name)}">${
            past === null ? "Show the latest" : "Show the one in force then"
          }</a>`
    }${isArchived(name) && tag("archived", "archive")}`,
    meta: [
      html`${typeIcon(environment.type)}${typeName(environment.type)}`,
      html`${icon("clock")}taken ${time(timestamp, now)}${user !== "" && html` by <bdi>${user}</bdi>`}`,
      isLatest ? past === null && reported(environment, now) : ended(snapshot, now),
    ],
    actions: [
      html`<span class="btn-group">${previous}${next}</span>`,
      linkButton(to.environmentDiff(left, `${name}#${index}`), "Compare", { icon: "git-compare" }),
      linkButton(to.whyArtifact(name, index, ""), past === null ? "Why?" : "Why then?", { icon: "question" }),
      isLatest && binderButton(visit, { environment: name }),
    ],
  });
}

const ended = ({ next_snapshot_timestamp: next }: ShownSnapshot, now: number): Html | null =>
  next === null ? null : html`${icon("history")}until ${time(next, now)}`;
