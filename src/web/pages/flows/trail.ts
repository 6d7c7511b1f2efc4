/** `/{org}/flows/{flow}/trails/{trail}`: the verdict of a trail, its checklist and history, and one attestation. */
import { listTrailAttestations } from "../../../api/attestations/trail-attestations.ts";
import { postOverride } from "../../../api/attestations/override.ts";
import { downloadTrailAuditPackage, downloadTrailAuditPdf } from "../../../api/flows/audit-packages.ts";
import { getFlow } from "../../../api/flows/flows.ts";
import { getTrailChecklist } from "../../../api/flows/trail-checklist.ts";
import { listTrailEvents } from "../../../api/flows/trails.ts";
import { AppError, notFound } from "../../../errors.ts";
import { membersOf } from "../../../json/text.ts";
import { pullRequestName } from "../../components/attestation-result.ts";
import { typedForm } from "../../components/editor.ts";
import { icon } from "../../components/icon.ts";
import { isUnseen } from "../../components/impact.ts";
import { authorName, commit, isWebAddress, reportedLink } from "../../components/identifier.ts";
import { jsonText } from "../../components/json.ts";
import { card, downloadButton, linkButton, pageHead, padded } from "../../components/layout.ts";
import { listOf, objectOf, textOf } from "../../components/loose-json.ts";
import { badge, stateOf, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { attestationDrawer, findRecord, runName } from "./attestation-drawer.ts";
import { overrideOf } from "./override-form.ts";
import { CLOSED, checklistCard, readChecklist } from "./trail-checklist.ts";
import { idsOfChecks } from "./trail-entries.ts";
import type { Trail, TrailAttestation } from "./trail-entries.ts";
import { eventsCard, eventsQuery } from "./trail-events.ts";
import type { TrailEvent } from "./trail-events.ts";
import { trailReasons } from "./trail-reasons.ts";

type Records = ReadonlyMap<string, TrailAttestation>;

/** The most records that one call reads. */
const MAX_IDS = 100;
/** Pull requests in the head of the page. */
const MAX_PULL_REQUESTS = 3;

async function show(visit: Visit): Promise<Content> {
  const { call, params, to } = visit;
  const address = { flow_name: params["flow"] ?? "", trail_name: params["trail"] ?? "" };
  const checklist = await readChecklist(visit);
  const { trail } = checklist;
  const events = await call(listTrailEvents, { params: address, query: eventsQuery(visit) });
  const records = await readRecords(visit, trail, [
    ...idsOfChecks([...checklist.data, ...checklist.reasons.failing]),
    ...idsOfEvents(events.data),
  ]);
  return {
    title: trail.name,
    identity: trail.git_commit_info && `commit ${trail.git_commit_info.sha1}`,
    section: "flows",
    crumbs: [
      { text: "Flows", href: to.flows() },
      { text: trail.flow.name, href: to.flow(trail.flow.name) },
    ],
    main: html`${trailHead(visit, trail, records)}<div class="stack">${[
      await flowNote(visit, trail),
      trailReasons(visit, { checklist, records }),
      checklistCard(visit, { checklist, records }),
      eventsCard(visit, { trail, events, records }),
      userDataCard(visit, trail),
    ]}</div>`,
    drawer: await attestationDrawer(visit, checklist),
    live: { flow: trail.flow.name, trail: trail.name },
  };
}

export const trailPage = page({
  path: "/{org}/flows/{flow}/trails/{trail}",
  show,
  forms: {
    override: form(postOverride, async (visit, fields) => {
      const { call, params, query, here } = visit;
      const address = { flow_name: params["flow"] ?? "", trail_name: params["trail"] ?? "" };
      const id = query.get("attestation_id") ?? "";
      const { opened } = await call(getTrailChecklist, {
        params: address,
        query: { attestation_id: id || null, per_page: 1 },
      });
      const record = await findRecord(visit, id);
      if (!opened || !record)
        throw notFound("This attestation does not count any more. Open the latest one of its name");
      const verdict = fields.text("new_compliance_status");
      if (isUnseen(fields, verdict))
        return { show: await show(typedForm(visit, "override", { fields, problems: [] })) };
      const body = overrideOf({ check: opened.check, record }, verdict === "true");
      await call(postOverride, { params: address, body: { ...body, reason: fields.text("reason").trim() } });
      // The override is the latest record of the name.
      const { data } = await call(listTrailAttestations, {
        params: address,
        query: { attestation_name: opened.check.attestation_name, per_page: 1 },
      });
      return { go: here({ ...CLOSED, attestation_id: data[0]?.attestation_id ?? id }), done: "overridden" };
    }),
  },
});

const idsOfEvents = (events: readonly TrailEvent[]): string[] =>
  events.flatMap(({ attestation_id: id }) => (id === undefined ? [] : [id]));

/** The records with these ids, by id. */
async function readRecords({ call }: Visit, trail: Trail, ids: readonly string[]): Promise<Records> {
  const records = new Map<string, TrailAttestation>();
  const wanted = [...new Set(ids)];
  for (let at = 0; at < wanted.length; at += MAX_IDS) {
    const { data } = await call(listTrailAttestations, {
      params: { flow_name: trail.flow.name, trail_name: trail.name },
      query: { attestation_id: wanted.slice(at, at + MAX_IDS), per_page: MAX_IDS },
    });
    for (const record of data as TrailAttestation[]) records.set(record.attestation_id, record);
  }
  return records;
}

function trailHead({ to, org, now, may }: Visit, trail: Trail, records: Records): Html {
  const { flow, name, git_commit_info: info } = trail;
  const file = (kind: string): string => to.api("trails", org, flow.name, name, kind);
  return pageHead({
    title: html`<bdi>${name}</bdi>`,
    state: badge(stateOf(trail.compliance_state), { isLarge: true }),
    sub: trail.description,
    meta: [
      info && html`${icon("git-commit")}${commit(info.sha1, info.url)} ${commitText(info)}`,
      ...pullRequests(records),
      trail.origin_url && html`${icon("play")}${reportedLink(trail.origin_url, runName(trail.origin_url))}`,
      ...membersOf(trail.external_urls).map(
        ([label, link]) => html`${icon("link")}${reportedLink(textOf(objectOf(link)["href"]), label)}`,
      ),
      ...trail.repo_ids
        .slice(0, 1)
        .map((id) => html`<span class="off-paper">${icon("repo")}<a href="${to.repository(id)}">Repository</a></span>`),
      html`${icon("clock")}begun ${time(trail.created_at, now)}`,
    ],
    actions: [
      trail.compliance_state === "COMPLIANT" &&
        linkButton(to.whyTrail(flow.name, name), "How it was decided", { icon: "question" }),
      may(downloadTrailAuditPdf) && downloadButton(file("audit_pdf"), "PDF"),
      may(downloadTrailAuditPackage) && downloadButton(file("audit_package"), "Audit package"),
    ],
  });
}

/** `on main by dev-lead`, as far as it is known. */
function commitText({ branch, author }: { branch: string; author: string }): Html {
  const who = authorName(author);
  return html`${branch !== "" && html`on <bdi>${branch}</bdi> `}${who !== "" && html`by <bdi>${who}</bdi>`}`;
}

function pullRequests(records: Records): Html[] {
  const urls = [...records.values()]
    .filter(({ attestation_type: type }) => type === "pull_request")
    .flatMap((record) => listOf(record["pull_requests"]).map(({ url }) => textOf(url)))
    .filter(isWebAddress);
  return [...new Set(urls)]
    .slice(0, MAX_PULL_REQUESTS)
    .map((url) => html`${icon("git-pull-request")}${reportedLink(url, pullRequestName(url))}`);
}

/** Says that the flow is archived, and what has its name now; or that it has another name now. */
async function flowNote({ call, params, to }: Visit, { flow, name }: Trail): Promise<Html | null> {
  const [, original] = /^(.*)-archived-at-\d+$/.exec(flow.name) ?? [];
  if (original !== undefined) {
    const successor =
      (await hasFlow(call, original)) &&
      html` Another flow has its name now: <a
href="${to.flow(original)}"><bdi>${original}</bdi></a>.`;
    return html`<p class="note">${tag("archived", "archive")} The flow of this trail was archived. It accepts no more
reports, and everything in it stays readable.${successor}</p>`;
  }
  if (flow.name === params["flow"]) return null;
  return html`<p class="note">The flow <bdi>${params["flow"]}</bdi> is called <bdi>${flow.name}</bdi> now. <a
href="${to.trail(flow.name, name)}">Open the present address</a>.</p>`;
}

async function hasFlow(call: Visit["call"], name: string): Promise<boolean> {
  try {
    await call(getFlow, { params: { flow_name: name } });
    return true;
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return false;
    throw error;
  }
}

function userDataCard({ to, org }: Visit, { flow, name, user_data: data }: Trail): Html | null {
  if (data === null || data === undefined) return null;
  const whole = `${to.api("trails", org, flow.name, name)}?events=false`;
  return card({ id: "h-data", title: "User data", body: padded(jsonText(data, "User data", whole)) });
}
