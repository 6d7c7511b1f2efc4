/**
 * What changed as an Atom feed (RFC 4287). Ids do not depend on the address of the server, so that a reader knows an
 * entry again after a move.
 */
import { joinCauses } from "../../domain/compliance/cause-words.ts";
import type { ChangeListValue, ChangeValue } from "./shapes.ts";

type Feed = {
  organization: { publicId: string; name: string; createdAt: number };
  /** Addresses of the feed itself and of the page that shows the same. */
  links: { self: string; page: string };
  /** Of the filters of the feed; empty without any. */
  filter: string;
  changes: Pick<ChangeListValue, "data">;
};

export const ATOM_TYPE = "application/atom+xml; charset=utf-8";

/** The feed as a text; entries in the order of the list, which is newest first. */
export function renderAtom({ organization, links, filter, changes: { data } }: Feed): string {
  const { publicId, name, createdAt } = organization;
  const id = `urn:assay:changes:${publicId}`;
  const entries = data.map((change) => renderEntry(change, id));
  return `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>${id}${filter === "" ? "" : `:${encodeURIComponent(filter)}`}</id>
<title>What changed in ${escapeXml(name)}</title>
<updated>${formatTime(data[0]?.timestamp ?? createdAt)}</updated>
<author><name>Assay</name></author>
<link rel="self" type="application/atom+xml" href="${escapeXml(links.self)}"/>
<link rel="alternate" type="text/html" href="${escapeXml(links.page)}"/>
${entries.join("")}</feed>
`;
}

function renderEntry(change: ChangeValue, feedId: string): string {
  const { id, kind, text, timestamp, by, html_url: page } = change;
  const author = by && `<author><name>${escapeXml(by)}</name></author>\n`;
  const time = formatTime(timestamp);
  return `<entry>
<id>${feedId}:${encodeURIComponent(id)}</id>
<title type="text">${escapeXml(text)}</title>
<updated>${time}</updated>
<published>${time}</published>
${author || ""}<category term="${kind}"/>
<link rel="alternate" type="text/html" href="${escapeXml(page)}"/>
<content type="text">${escapeXml(detailsOf(change))}</content>
</entry>
`;
}

/** What the title does not say, one fact on a line: first why. */
function detailsOf(change: ChangeValue): string {
  const {
    causes,
    further_causes: further,
    compliant,
    build,
    allowlist,
    policy,
    environment_name: place,
    text,
  } = change;
  const why = joinCauses(causes, further);
  return [
    why === "" ? null : compliant?.after === true ? `No longer: ${why}` : why,
    allowlist && `Reason: ${allowlist.reason}`,
    policy?.comment && `Comment: ${policy.comment}`,
    ...(build?.pull_requests ?? []).map(({ url, title }) => (title === null ? url : `${title}: ${url}`)),
    build?.compare_url && `Commits: ${build.compare_url}`,
    build && `Build: ${build.build_url}`,
    place === null || text.includes(place) ? null : `In ${place}`,
  ]
    .filter((line): line is string => typeof line === "string" && line !== "")
    .join("\n");
}

const formatTime = (seconds: number): string => new Date(seconds * 1000).toISOString();

/** Everything that XML 1.0 does not allow, even as a reference. */
const NOT_XML = /[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu;

const escapeXml = (text: string): string =>
  text.replace(NOT_XML, "\uFFFD").replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
