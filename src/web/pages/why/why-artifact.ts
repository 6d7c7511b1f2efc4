/** Why an artifact in a snapshot has its verdict. */
import { icon } from "../../components/icon.ts";
import { fingerprint as shownFingerprint } from "../../components/identifier.ts";
import { card, pageHead, reasonsBox } from "../../components/layout.ts";
import { pager } from "../../components/lists.ts";
import { badge, plural, stateIcon, stateOfVerdict, tag } from "../../components/state.ts";
import { formatUtc, time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Content, Visit } from "../../page/page.ts";
import { crumbsOf } from "../environments/head.ts";
import { causeItem, sameNameSentences } from "./causes.ts";
import { counted, rulesOf, subjectsOf } from "./explained.ts";
import type { Artifact, SnapshotAnswer, ShownArtifact } from "./explained.ts";
import { attachButton, headActions, isAllOpen, openSwitch, problemsBox, replayResult } from "./parts.ts";
import { lineAddress, policyText, shownPolicy } from "./policy-text.ts";
import { policyTree } from "./policy-tree.ts";
import { remediesCard } from "./remedies.ts";

/** Causes in the box at the top; the tree has the rest. */
const MAX_CAUSES = 8;

/** @param isAsked whether a person asked for a re-evaluation just now */
export function artifactContent(visit: Visit, explanation: SnapshotAnswer, { isAsked }: { isAsked: boolean }): Content {
  const { to, org, query } = visit;
  const { snapshot, selection, fingerprint, same, problems } = explanation;
  const subjects = subjectsOf(explanation);
  const chosen = Number(query.get("in") ?? "0");
  const subject = subjects[chosen] ?? (subjects[0] as ShownArtifact);
  const { artifact, at } = subject;
  const { name: environment } = snapshot.environment;
  const index = String(snapshot.index);
  const json = `${to.api("explanations", org, "environments", environment, index)}?fingerprint=${fingerprint}`;
  const shown = shownPolicy(visit, subject);
  const lineHref = lineAddress(visit, shown);
  const replay = replayResult(same, { isAsked, from: "from the stored facts and policy versions" });
  const hasFailed = artifact.policies.some(({ status }) => status === "NON-COMPLIANT");
  const decided =
    artifact.policies.length > 0 &&
    card({
      id: "h-tree",
      title: "How it was decided",
      more: openSwitch(visit, { hasFailed }),
      body: policyTree(visit, artifact, { isAllOpen: isAllOpen(visit, { hasFailed }), lineHref }),
      foot: replay,
    });
  const main = html`${head(visit, subject, { form: "replay_artifact", json })}${
    subjects.length > 1 && subjectTabs(visit, subjects, subject)
  }<div class="cols-why"><div class="stack">${problemsBox(problems)}${verdictBox(visit, subject)}${decided}${
    decided === false && isAsked && card({ id: "h-replay", title: "Re-evaluation", body: "", foot: replay })
  }${selection && pager(visit, selection)}</div>
<div class="stack sticky">${shown && policyText(visit, subject, shown)}${remedies(visit, subject)}</div></div>`;
  return {
    title: `Why: ${artifact.name}`,
    identity: artifact.fingerprint === "" ? null : `sha256:${artifact.fingerprint}`,
    section: "environments",
    crumbs: [
      ...crumbsOf(visit, at.environment),
      { text: `#${at.index}`, href: to.snapshot(at.environment.name, at.index) },
    ],
    crumb: "Why?",
    main,
  };
}

function head(visit: Visit, { artifact, at }: ShownArtifact, actions: { form: string; json: string }): Html {
  const { to, now } = visit;
  const { name, fingerprint, allowlist, compliant, exited, first_index: first } = artifact;
  const environment = at.environment.name;
  const state = allowlist && compliant === true ? "allowlisted" : stateOfVerdict(compliant);
  const place = html`in <a href="${to.snapshot(environment, at.index)}"><bdi>${environment}</bdi> #${at.index}</a>`;
  const evaluated =
    first === at.index
      ? html`${icon("clock")}evaluated ${time(at.timestamp, now)}`
      : html`${icon("clock")}evaluated with
<a href="${to.snapshot(environment, first)}">#${first}</a>, unchanged since`;
  return pageHead({
    above: "Why is",
    title: html`<bdi>${name}</bdi>`,
    state: html`${badge(state, { isLarge: true })}${exited && tag("exited")}`,
    meta: [
      place,
      provenance(visit, artifact),
      fingerprint === "" ? "no fingerprint" : shownFingerprint(fingerprint),
      evaluated,
    ],
    actions: headActions(visit, actions),
  });
}

/** Where it comes from: the ways to its page, its trail and its flow. */
function provenance({ to }: Visit, { fingerprint, flows: [first, ...others] }: Artifact): Value {
  if (fingerprint === "") return null;
  if (!first) return "not reported to any flow";
  const { flow, trail } = first;
  const trailLink = trail !== null && html` of trail <a href="${to.trail(flow, trail)}"><bdi>${trail}</bdi></a>,`;
  const more = others.length > 0 && ` and ${plural(others.length, "other flow")}`;
  return html`<span><a href="${to.artifact(flow, fingerprint)}">Artifact</a>${trailLink}${
    trail === null ? " of" : ""
  } flow <a href="${to.flow(flow)}"><bdi>${flow}</bdi></a>${more}</span>`;
}

/** One fingerprint may run under several names, and in several members of a logical environment. */
function subjectTabs({ here }: Visit, subjects: readonly ShownArtifact[], current: ShownArtifact): Html {
  const hasOneName = new Set(subjects.map(({ artifact }) => artifact.name)).size === 1;
  const items = subjects.map((subject, index) => {
    const { artifact, at } = subject;
    const label = html`<bdi>${at.environment.name}</bdi>${!hasOneName && html`: <bdi>${artifact.name}</bdi>`}`;
    const isCurrent = subject === current;
    return html`<a href="${here({ in: index, policy: null })}"${isCurrent && html` aria-current="page"`}>${stateIcon(
      stateOfVerdict(artifact.compliant),
    )}<span class="cut">${label}</span></a>`;
  });
  return html`<nav class="tabs why-tabs" aria-label="Where it runs">${items}</nav>`;
}

/** The box that answers the question. */
function verdictBox(visit: Visit, subject: ShownArtifact): Html {
  const { artifact } = subject;
  const { compliant, allowlist } = artifact;
  const stopped =
    artifact.exited && html`<p class="muted">It exited with this snapshot. This is the last verdict that it had.</p>`;
  const box =
    allowlist && compliant === true
      ? allowlistedBox(visit, subject)
      : compliant === null
        ? unknownBox(visit, subject)
        : compliant
          ? reasonsBox({ state: "ok", title: acceptedTitle(artifact), reasons: [] })
          : refusedBox(visit, artifact);
  return html`${stopped}${box}${sameNameBox(visit, artifact)}`;
}

function sameNameBox(visit: Visit, artifact: Artifact): Html | null {
  const reasons = sameNameSentences(visit, artifact);
  return reasons.length === 0
    ? null
    : reasonsBox({ state: "none", title: "Its name is known, not its fingerprint", reasons });
}

function refusedBox(visit: Visit, artifact: Artifact): Html {
  const reasons = causesOf(visit, artifact);
  return reasonsBox({
    title:
      artifact.policies.length === 0 ? "Non-compliant. The policies that decided cannot be read" : refusal(artifact),
    reasons,
  });
}

function causesOf(visit: Visit, artifact: Artifact): Value[] {
  const { causes } = artifact;
  const shown = causes.slice(0, MAX_CAUSES).map((cause) => causeItem(visit, cause));
  const rest = causes.length - shown.length;
  if (shown.length === 0) return artifact.reasons.slice(0, MAX_CAUSES);
  return rest > 0 ? [...shown, `${counted(rest, "more cause")} below`] : shown;
}

/** `1 of 2 policies refuses it: 2 of its 6 rules fail, with two causes`. Rules are symptoms, and counted as such. */
export function refusal({ policies, causes }: Artifact): string {
  const refusing = policies.filter(({ status }) => status === "NON-COMPLIANT");
  const rules = refusing.flatMap((verdict) => rulesOf(verdict) ?? []);
  const failing = rules.filter(({ satisfied }) => satisfied === false).length;
  const isOne = refusing.length === 1;
  const who =
    policies.length === 1
      ? `Policy ${policies[0]?.policy} refuses it`
      : `${refusing.length} of ${policies.length} policies ${isOne ? "refuses" : "refuse"} it`;
  const whose = isOne ? "its" : "their";
  const how =
    rules.length === 0
      ? ""
      : rules.length === 1
        ? ": its only rule fails"
        : `: ${failing} of ${whose} ${rules.length} rules ${failing === 1 ? "fails" : "fail"}`;
  return `${who}${how}${causes.length === 0 ? "" : `, with ${counted(causes.length, "cause")}`}`;
}

function acceptedTitle({ policies }: Artifact): string {
  const rules = policies.flatMap((verdict) => rulesOf(verdict) ?? []);
  const holding = rules.filter(({ satisfied }) => satisfied === true).length;
  const idle = rules.filter(({ satisfied }) => satisfied === null).length;
  const who =
    policies.length === 1
      ? `Policy ${policies[0]?.policy} accepts it`
      : `${policies.length === 2 ? "Both" : `All ${policies.length}`} policies accept it`;
  const hold = `${counted(holding, "rule")} ${holding === 1 ? "holds" : "hold"}`;
  const rest = idle === 0 ? "" : `, ${counted(idle, "rule")} ${idle === 1 ? "does" : "do"} not apply`;
  return `${who}: ${hold}${rest}`;
}

function allowlistedBox(visit: Visit, { artifact, at }: ShownArtifact): Html {
  const { now } = visit;
  const {
    user_name: name,
    timestamp,
    description,
    expires_at: end,
  } = artifact.allowlist as NonNullable<Artifact["allowlist"]>;
  const isRefused = artifact.policies.some(({ status }) => status === "NON-COMPLIANT");
  const otherwise = isRefused
    ? html`Without this entry: ${lowered(refusal(artifact))}`
    : "All policies accept it without this entry";
  const until = end === undefined ? "It has no end" : html`It ends ${time(end, now)}, at ${formatUtc(end)}`;
  const reason = description === "" ? "No reason was given" : html`Reason: ${description}`;
  return html`<div class="why why-allow">${icon("shield-check")}<div><h2>Allowlisted in <bdi>${
    at.environment.name
  }</bdi> by <bdi>${name}</bdi>, ${time(timestamp, now)}</h2>
<ul><li>${reason}</li><li>${until}</li><li>${otherwise}</li>${
    isRefused && causesOf(visit, artifact).map((cause) => html`<li>${cause}</li>`)
  }</ul></div></div>`;
}

const lowered = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

function unknownBox(visit: Visit, { artifact, at }: ShownArtifact): Html {
  const { name } = at.environment;
  const hasPolicies = artifact.policies.length > 0;
  return reasonsBox({
    state: "none",
    title: hasPolicies ? "Unknown" : html`Unknown: no policy is attached to <bdi>${name}</bdi>`,
    reasons: ["An unknown verdict is never counted as compliant"],
    actions: !hasPolicies && attachButton(visit, name),
  });
}

function remedies(visit: Visit, { artifact, at }: ShownArtifact): Html | null {
  const all = artifact.policies.flatMap((verdict) => (rulesOf(verdict) ?? []).flatMap((rule) => rule.satisfied_by));
  const { fingerprint, name, allowlist, exited } = artifact;
  const title = exited
    ? "What would have made it compliant"
    : allowlist
      ? "What would make it compliant without the allowlist"
      : undefined;
  return remediesCard(visit, all, {
    image: name,
    allow: fingerprint === "" || exited ? null : { environment: at.environment.name, index: at.index, fingerprint },
    ...(title === undefined ? {} : { title }),
  });
}
