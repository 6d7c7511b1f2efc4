/** `/{org}/attestations`: the attestations of an organization with all filters of the API, newest first. */
import { getCustomAttestationTypes } from "../../../api/attestations/custom-attestation-types.ts";
import { getAttestations } from "../../../api/attestations/reads.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { fingerprint } from "../../components/identifier.ts";
import { linkButton, nameCell } from "../../components/layout.ts";
import { listPage } from "../../components/list-page.ts";
import type { ListPart } from "../../components/list-page.ts";
import { PER_PAGE } from "../../components/lists.ts";
import type { Filter } from "../../components/lists.ts";
import { badge, stateOfVerdict, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { inWords } from "../../page/field-words.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { readFilter, SINCE } from "./attestation-filter.ts";
import { flowFilter, typeFilter } from "./choices.ts";
import { nothingMatches } from "./attestations-none.ts";

type Answer = AnswerOf<typeof getAttestations>;
type Attestation = Answer["data"][number];

const STATES: Filter = {
  kind: "choice",
  name: "is_compliant",
  label: "State",
  choices: [
    { value: "", text: "Any state" },
    { value: "true", text: "Compliant" },
    { value: "false", text: "Non-compliant" },
  ],
};

const SINCE_FILTER: Filter = {
  kind: "choice",
  name: "since",
  label: "Time",
  choices: [{ value: "", text: "Any time" }, ...Object.entries(SINCE).map(([value, { text }]) => ({ value, text }))],
};

const MATCH: Filter = {
  kind: "choice",
  name: "match",
  label: "How the name matches",
  choices: [
    { value: "", text: "Name contains" },
    { value: "exact", text: "Name is exactly" },
    { value: "regex", text: "Name matches regex (RE2)" },
  ],
};

export const attestationsPage = page({
  path: "/{org}/attestations",
  show: listPage({
    title: "Attestations",
    section: "attestations",
    actions: ({ may, to }) => [
      may(getCustomAttestationTypes) && linkButton(to.attestationTypes(), "Attestation types", { icon: "code" }),
    ],
    what: ["attestation", "attestations"],
    read: readPage,
    filters: async (visit) => [
      { kind: "search", name: "name", label: "Search by name" },
      await typeFilter(visit),
      STATES,
      await flowFilter(visit),
      SINCE_FILTER,
    ],
    more: [
      MATCH,
      { kind: "day", name: "from", label: "From (UTC)" },
      { kind: "day", name: "to", label: "To (UTC)" },
      { kind: "text", name: "commit", label: "Commit: its whole id" },
      { kind: "text", name: "attestation_id", label: "Id of an attestation" },
    ],
    caption: "Attestations, newest first",
    columns: [
      { text: "Name" },
      { text: "State", className: "w-st" },
      { text: "Result", className: "w-result" },
      { text: "Flow and trail", className: "w-place" },
      { text: "Artifact", className: "hide-m w-place" },
      { text: "Reported", isRight: true, className: "w-lead" },
    ],
    row: attestationRow,
    empty: {
      icon: "verified",
      title: "No attestations yet",
      text: "An attestation is evidence about a trail or an artifact: test results, a scan, a review, a decision.",
      command: "kosli attest generic --name NAME --flow FLOW --trail TRAIL --compliant=true",
    },
    none: nothingMatches,
  }),
});

const WHOLE_COMMIT =
  "The filter takes the whole id of a commit, 40 characters. The search above finds it by its start.";

/** One page; the problem of a regular expression or a commit that the API refuses. */
async function readPage(visit: Visit): Promise<ListPart<Attestation>> {
  const { call, query } = visit;
  const read = async (after: string | null): Promise<ListPart<Attestation>> => {
    const answer = await call(getAttestations, { query: { ...readFilter(visit), after, per_page: PER_PAGE } });
    return { rows: answer.data, position: { next: answer._links.next?.after ?? null } };
  };
  try {
    return await read(query.get("after"));
  } catch (error) {
    const fields = error instanceof AppError ? (error.fields ?? {}) : {};
    // The token of a page may have been cut off on its way.
    if (fields["after"] !== undefined) return read(null);
    const problem = (fields["name_regex"] && inWords(fields["name_regex"])) ?? (fields["commit"] && WHOLE_COMMIT);
    if (problem) return { problem, rows: [], position: { next: null } };
    throw error;
  }
}

function attestationRow({ to, now }: Visit, attestation: Attestation): Html {
  const { flow_name: flow, trail_name: trail, attestation_type: type, is_compliant: isCompliant } = attestation;
  const reporter = attestation.reported_by;
  const overridden = (attestation as { original_attestation_type?: unknown }).original_attestation_type;
  const kind =
    type === "override" && typeof overridden === "string"
      ? html`${typeWordOf(overridden)} ${tag("override")}`
      : html`<bdi>${typeWordOf(type)}</bdi>`;
  const name = nameCell({
    href: to.attestation({ flow, trail, id: attestation.attestation_id }),
    name: html`<bdi>${attestation.attestation_name}</bdi>`,
    sub: kind,
    mark: icon("verified"),
  });
  const result = resultOf(attestation);
  return html`<tr>${name}<td>${badge(stateOfVerdict(isCompliant))}</td>
<td class="fill">${result !== "" && html`<bdi class="cut">${result}</bdi>`}</td>
<td class="flow fill"><a href="${to.flow(flow)}"><bdi class="cut">${flow}</bdi></a>
<div class="sub"><a href="${to.trail(flow, trail)}"><bdi class="cut">${trail}</bdi></a></div></td>
<td class="hide-m">${artifactOf({ to }, attestation)}</td>
<td class="r">${time(attestation.created_at, now)}<div class="sub hide-t">
<bdi class="cut">${reporter}</bdi></div></td></tr>`;
}

/** What the attestation is about. */
function artifactOf({ to }: Pick<Visit, "to">, attestation: Attestation): Html {
  const { artifact_fingerprint: digest, target_artifacts: targets, flow_name: flow } = attestation;
  const [target] = targets ?? [];
  if (digest === null)
    return target === undefined
      ? html`<span class="muted">of the trail</span>`
      : html`<bdi class="cut">${target}</bdi><div class="sub">not reported yet</div>`;
  const href = to.artifact(flow, digest);
  return target === undefined
    ? fingerprint(digest, href)
    : html`<a href="${href}"><bdi class="cut">${target}</bdi></a><div class="sub">${fingerprint(digest)}</div>`;
}
