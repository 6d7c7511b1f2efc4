/** `/{org}/flows/{flow}/artifacts/{fingerprint}`: an artifact, its verdicts, where it runs, and where it comes from. */
import { listTrailAttestations } from "../../../api/attestations/trail-attestations.ts";
import { listArtifactRuns } from "../../../api/environments/artifact-runs.ts";
import { getArtifactByFingerprint } from "../../../api/flows/artifacts.ts";
import { getAuditPackage } from "../../../api/flows/audit-packages.ts";
import { getTrailChecklist } from "../../../api/flows/trail-checklist.ts";
import { assertArtifact } from "../../../api/policies/asserts.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { countingId } from "../../../domain/compliance/checklist.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { LEAD_TIME } from "../../components/deployments.ts";
import { icon } from "../../components/icon.ts";
import { authorName, buildLink, commit, copyButton, reportedLink } from "../../components/identifier.ts";
import { jsonText } from "../../components/json.ts";
import { lanes, lanesLegend } from "../../components/lanes.ts";
import type { Span } from "../../components/lanes.ts";
import { card, downloadButton, empty, facts, moreLink, nameCell, padded, pageHead } from "../../components/layout.ts";
import {
  badge,
  plainState,
  stateIcon,
  stateOf,
  stateOfVerdict,
  stateSubtitle,
  stateWord,
} from "../../components/state.ts";
import { formatSpan, formatUtc, time } from "../../components/time.ts";
import { membersOf } from "../../../json/text.ts";
import { inlineText, objectOf, textOf } from "../../components/loose-json.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import { notThen, presentNote } from "../../page/past-notes.ts";
import { page } from "../../page/page.ts";
import type { Content, Moment, Visit } from "../../page/page.ts";
import { CHECKLIST_COLUMNS, summaryOfChecklist } from "../flows/trail-checklist.ts";
import { recordOf, stateOfCheck } from "../flows/trail-entries.ts";
import type { ShownCheck, TrailAttestation } from "../flows/trail-entries.ts";
import { MAX_ENVIRONMENTS, verdictsCard } from "./artifact-verdicts.ts";
import type { Assertion, Runs } from "./artifact-verdicts.ts";
import { wouldCard } from "./artifact-would.ts";
import { verdictsThen } from "./past-artifacts.ts";

type Artifact = AnswerOf<typeof getArtifactByFingerprint>;

/** Environments whose policies are evaluated for the page. */
const MAX_EVALUATED = 6;
const MAX_ATTESTATIONS = 25;
const MAX_LEAD_TIMES = 8;
const MAX_ANNOTATIONS = 200;
const MAX_ANNOTATION_CHARS = 2_000;
const ID = /^[a-f0-9-]{1,64}$/;

export const artifactPage = page({
  path: "/{org}/flows/{flow}/artifacts/{fingerprint}",
  past: "then",
  async show(visit) {
    const { call, params, query, to } = visit;
    const address = {
      flow_name: params["flow"] ?? "",
      fingerprint: (params["fingerprint"] ?? "").replace(/^sha256:/, ""),
    };
    const latest = await call(getArtifactByFingerprint, { params: address });
    const id = query.get("artifact_id");
    const artifact =
      id === null || id === latest.id || !ID.test(id)
        ? latest
        : await call(getArtifactByFingerprint, { params: address, query: { artifact_id: id } });
    const { fingerprint } = artifact;
    if (visit.moment) return showThen(visit, artifact, visit.moment);
    const assertion = await call(assertArtifact, { params: { fingerprint }, query: { causes: true } });
    const runs = await call(listArtifactRuns, { params: { fingerprint } });
    const assertions = await evaluate(visit, fingerprint, runs);
    const note = artifact !== latest && laterNote(visit, latest);
    return {
      title: artifact.filename,
      identity: `sha256:${artifact.fingerprint}`,
      section: "artifacts",
      crumbs: [{ text: "Artifacts", href: to.artifacts() }],
      main: html`${artifactHead(visit, artifact)}<div class="cols"><div class="stack">${note}${await wouldCard(
        visit,
        fingerprint,
      )}${verdictsCard(visit, {
        fingerprint,
        flows: assertion.flows,
        runs,
        assertions,
      })}${runsCard(visit, artifact, runs)}${await attestationsCard(visit, artifact)}</div>
<div class="stack">${buildCard(visit, artifact)}${leadTimeFacts(artifact)}${takeCard(visit, artifact)}</div></div>`,
    };
  },
});

/** What was reported, and where it ran, as of a moment. */
async function showThen(visit: Visit, artifact: Artifact, { at, text }: Moment): Promise<Content> {
  const { fingerprint, filename } = artifact;
  const place = { section: "artifacts", crumbs: [{ text: "Artifacts", href: visit.to.artifacts() }] } as const;
  if (Number(artifact.created_at) > at)
    return notThen(visit, { title: filename, text: "The artifact was reported after that moment.", ...place });
  const runs = await visit.call(listArtifactRuns, { params: { fingerprint }, query: { at: text } });
  return {
    title: filename,
    identity: `sha256:${fingerprint}`,
    ...place,
    main: html`${artifactHead(visit, artifact)}${presentNote(
      "What is known of its build is as of now. The state of its evidence has no history, so it is left out.",
    )}<div class="cols"><div class="stack">${verdictsThen(visit, fingerprint, runs)}${runsCard(
      visit,
      artifact,
      runs,
    )}</div><div class="stack">${buildCard(visit, artifact)}</div></div>`,
  };
}

/** The verdicts that the policies of an environment give now, for the first environments. */
async function evaluate({ call }: Visit, fingerprint: string, { environments }: Runs): Promise<Map<string, Assertion>> {
  const found = new Map<string, Assertion>();
  const chosen = environments
    .filter(({ is_archived: isArchived }) => !isArchived)
    .sort((a, b) => Number(b.is_running) - Number(a.is_running))
    .slice(0, MAX_EVALUATED);
  for (const { environment_name: name } of chosen)
    found.set(
      name,
      await call(assertArtifact, { params: { fingerprint }, query: { environment_name: name, causes: true } }),
    );
  return found;
}

const laterNote = ({ to, now }: Visit, { flow_name: flow, fingerprint, id, last_modified_at: at }: Artifact): Html =>
  html`<p class="note">This artifact was reported again ${time(Number(at), now)}. <a
href="${to.artifact(flow, fingerprint, id)}">Open the latest record</a>.</p>`;

function artifactHead({ to, org, may, now, moment }: Visit, artifact: Artifact): Html {
  const { fingerprint, filename, flow_name: flow } = artifact;
  const short = `${fingerprint.slice(0, 16)}…${fingerprint.slice(-4)}`;
  const branch = artifact.git_commit_info?.branch;
  const source = commit(artifact.git_commit, artifact.commit_url);
  return pageHead({
    title: html`<bdi>${filename}</bdi>`,
    state: moment === null && badge(stateOf(artifact.state), { isLarge: true }),
    meta: [
      html`${icon("package")}<span class="id"><span title="sha256:${fingerprint}">${short}</span>${copyButton(
        fingerprint,
        `fingerprint ${fingerprint.slice(0, 7)}`,
      )}</span>`,
      html`${icon("git-commit")}${source}${branch && html` on <bdi>${branch}</bdi>`}`,
      artifact.build_url !== "" && html`${icon("play")}${buildLink(artifact.build_url)}`,
      html`${icon("clock")}reported ${time(Number(artifact.created_at), now)}`,
    ],
    actions: [
      moment === null &&
        may(getAuditPackage) &&
        downloadButton(to.api("artifacts", org, flow, fingerprint, "audit_package"), "Audit package"),
    ],
  });
}

function runsCard(visit: Visit, artifact: Artifact, { environments }: Runs): Html {
  const { to, now, moment } = visit;
  if (environments.length === 0)
    return card({
      id: "h-runs",
      title: moment ? "Where it ran" : "Where it runs",
      body: empty({
        icon: "server",
        title: moment ? "It had not run yet" : "It never ran",
        text: moment
          ? "No environment had reported this artifact at that moment."
          : "No environment has reported this artifact. It appears here with the next report that contains it.",
      }),
    });
  const shown = environments.slice(0, MAX_ENVIRONMENTS);
  const starts = shown.flatMap(({ runs }) => runs.map(({ started_at: at }) => at));
  const from = starts.reduce((first, at) => Math.min(first, at), Number(artifact.created_at));
  const items = shown.map((environment) => {
    const { environment_name: name, is_running: isRunning, is_compliant: isCompliant, runs } = environment;
    const state = stateOfVerdict(isCompliant);
    const spans = joined(environment, (index) => to.snapshot(name, index));
    const since = spans.find(({ to, isCompliant: verdict }) => to === null && verdict === isCompliant)?.from;
    const end = runs[0]?.ended_at ?? null;
    return {
      name: html`<bdi>${name}</bdi>`,
      href: to.snapshot(name, environment.snapshot_index),
      spans,
      label: isRunning
        ? `${moment ? "Ran" : "Runs"} in ${name}, ${stateWord(state).toLowerCase()}${
            since === undefined ? "" : ` since ${formatUtc(since)}`
          }`
        : `Ran in ${name}${end === null ? "" : ` until ${formatUtc(end)}`}`,
      state: isRunning
        ? html`${plainState(state)} <span class="sub">since ${time(since, now)}</span>`
        : html`<span class="st none">${icon("skip")}Exited</span> <span class="sub">${time(end, now)}</span>`,
    };
  });
  return card({
    id: "h-runs",
    title: moment ? "Where it ran" : "Where it runs",
    more: lanesLegend(),
    body: padded(lanes(items, { from, now, end: moment ? "then" : "now" })),
  });
}

/** Runs that follow each other with the same verdict as one, newest first. */
function joined(
  { environment_name: name, runs }: Pick<Runs["environments"][number], "environment_name" | "runs">,
  hrefOf: (index: number) => string,
): Span[] {
  const spans: Span[] = [];
  for (const { snapshot_index: index, started_at: from, ended_at: to, is_compliant: isCompliant } of runs) {
    const later = spans.at(-1);
    const place = {
      from,
      href: hrefOf(index),
      words: `${name} #${index}, ${stateWord(stateOfVerdict(isCompliant)).toLowerCase()} from ${formatUtc(from)}`,
    };
    if (later && later.isCompliant === isCompliant && to === later.from) Object.assign(later, place);
    else spans.push({ ...place, to, isCompliant });
  }
  return spans;
}

async function attestationsCard(visit: Visit, artifact: Artifact): Promise<Html> {
  const { to, call } = visit;
  const { flow_name: flow, trail_name: trailName } = artifact;
  if (trailName === null)
    return card({
      id: "h-attestations",
      title: "Attestations",
      body: padded("This artifact was reported without a trail, so no attestation belongs to it."),
    });
  const {
    data: checks,
    totals,
    pagination,
  } = await call(getTrailChecklist, {
    params: { flow_name: flow, trail_name: trailName },
    query: { artifact_id: artifact.id, per_page: MAX_ATTESTATIONS },
  });
  const ids = checks.flatMap((check) => countingId(check) ?? []);
  const answer =
    ids.length === 0
      ? { data: [] }
      : await call(listTrailAttestations, {
          params: { flow_name: flow, trail_name: trailName },
          query: { attestation_id: ids, per_page: MAX_ATTESTATIONS },
        });
  const records = new Map((answer.data as TrailAttestation[]).map((record) => [record.attestation_id, record]));
  const rows = checks.map((check) => attestationRow(visit, artifact, { check, records }));
  const rest = pagination.total - checks.length;
  return card({
    id: "h-attestations",
    title: "Checklist",
    note: totals.checks === 0 ? null : summaryOfChecklist(totals),
    more: moreLink(to.trail(flow, trailName), "Trail"),
    body:
      checks.length === 0
        ? padded("Nothing was reported for this artifact, and its template expects nothing.")
        : html`<table class="t t-stack checklist"><caption class="vh">Attestations of the artifact and of its
trail</caption>${CHECKLIST_COLUMNS}<thead class="vh"><tr><th scope="col">Name</th><th scope="col">Result</th><th
scope="col">When</th></tr></thead><tbody>${rows}</tbody></table>`,
    foot: rest > 0 ? html`<a href="${to.trail(flow, trailName)}">${rest} more</a>` : null,
  });
}

function attestationRow(
  { to, now }: Visit,
  { flow_name: flow, trail_name: trail }: Artifact,
  { check, records }: { check: ShownCheck; records: ReadonlyMap<string, TrailAttestation> },
): Html {
  const id = countingId(check);
  const state = stateOfCheck(check);
  const record = recordOf(check, records);
  const isOverridden = check.overridden_attestation_id !== null;
  const type = typeWordOf(check.attestation_type);
  const word = isOverridden ? `${stateWord(state)} by override` : stateWord(state);
  return html`<tr>${nameCell({
    href: id === null || trail === null ? null : to.attestation({ flow, trail, id }),
    name: html`<bdi>${check.attestation_name}</bdi>`,
    mark: stateIcon(state, word),
    sub: html`${stateSubtitle(state, word)}<span>${type}${check.artifact === null && ", of the trail"}</span>`,
  })}<td class="fill">${
    record ? resultOf(record) : html`<span class="muted">Expected by the template</span>`
  }</td><td class="r">${time(record?.created_at, now)}</td></tr>`;
}

/** The address of the record as JSON. */
const wholeRecord = ({ to, org }: Visit, { flow_name: flow, fingerprint, id }: Artifact): string =>
  `${to.api("artifacts", org, flow, "fingerprint", fingerprint)}?artifact_id=${encodeURIComponent(id)}`;

function buildCard(visit: Visit, artifact: Artifact): Html {
  const { to } = visit;
  const info = artifact.git_commit_info;
  const [message = ""] = (info?.message ?? "").split("\n");
  const author = authorName(info?.author ?? "");
  const repo = artifact.repo_info;
  const repository: Value = repo
    ? reportedLink(repo.url, repo.name || repo.url)
    : artifact.repo_url && reportedLink(artifact.repo_url, artifact.repo_url);
  const list = facts([
    ["Repository", repository],
    [
      "Commit",
      html`${commit(artifact.git_commit, artifact.commit_url)}<span class="sub">${[message, author]
        .filter((text) => text !== "")
        .join(", ")}</span>`,
    ],
    ["Build", artifact.build_url && buildLink(artifact.build_url)],
    ["Flow", html`<a href="${to.flow(artifact.flow_name)}"><bdi>${artifact.flow_name}</bdi></a>`],
    [
      "Trail",
      artifact.trail_name === null
        ? html`<span class="muted">none</span>`
        : html`<a href="${to.trail(artifact.flow_name, artifact.trail_name)}"><bdi>${artifact.trail_name}</bdi></a>`,
    ],
    ["Name", artifact.template_reference_name],
    ...membersOf(artifact.external_urls).map(([name, link]) => {
      const href = textOf(objectOf(link)["href"]);
      return [name, reportedLink(href, href)] as const;
    }),
    ...annotationFacts(artifact.annotations),
  ]);
  const data = artifact.user_data;
  return html`${card({ id: "h-build", title: "Build", body: padded(list) })}${
    data !== null &&
    data !== undefined &&
    card({ id: "h-data", title: "User data", body: padded(jsonText(data, "User data", wholeRecord(visit, artifact))) })
  }`;
}

/** Annotations by key; their values may be any JSON. */
function annotationFacts(annotations: unknown): [string, Value][] {
  const entries = membersOf(annotations);
  const shown = entries.slice(0, MAX_ANNOTATIONS).map(([key, value]): [string, Value] => {
    const text = inlineText(value);
    return [
      key,
      text.length > MAX_ANNOTATION_CHARS ? `${text.slice(0, MAX_ANNOTATION_CHARS)}…` : reportedLink(text, text),
    ];
  });
  const rest = entries.length - shown.length;
  return rest === 0 ? shown : [...shown, ["More annotations", `${rest}, in the JSON of the record`]];
}

/** From the commit and from the report of the build to the first deployment in each environment. */
function leadTimeFacts({
  build_lead_times: builds,
  created_at: builtAt,
  git_commit_info: commit,
}: Artifact): Html | null {
  const names = Object.keys(builds).slice(0, MAX_LEAD_TIMES);
  if (names.length === 0) return null;
  // 0: the report had no commit time.
  const beforeBuild = commit?.timestamp ? Number(builtAt) - commit.timestamp : null;
  const entries = names.map((name): [string, Value] => {
    const build = builds[name] ?? 0;
    const whole = beforeBuild === null ? "unknown" : formatSpan(Math.max(0, build + beforeBuild));
    return [name, html`${whole} <div class="sub">${formatSpan(build)} from build</div>`];
  });
  return card({ id: "h-lead", title: LEAD_TIME, body: padded(facts(entries)) });
}

function takeCard(visit: Visit, artifact: Artifact): Html {
  const { to, org, may } = visit;
  const { flow_name: flow, fingerprint } = artifact;
  const item = (name: "file-zip" | "code", href: string, { text, sub }: { text: string; sub: string }): Html =>
    html`<li>${icon(name)}<div class="grow"><a class="name" href="${href}" download>${text}</a><div
class="sub">${sub}</div></div></li>`;
  const files = card({
    id: "h-take",
    title: "Take it with you",
    body: html`<ul class="rows">${
      may(getAuditPackage) &&
      item("file-zip", to.api("artifacts", org, flow, fingerprint, "audit_package"), {
        text: "Audit package",
        sub: "Records and evidence, to be checked without this server",
      })
    }${item("code", wholeRecord(visit, artifact), { text: "Record", sub: "JSON, as the API shows it" })}</ul>`,
  });
  return html`<div class="off-paper">${files}</div>`;
}
