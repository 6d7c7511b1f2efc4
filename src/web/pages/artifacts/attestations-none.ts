/** What the list of attestations says when nothing matches: which filter to drop, and what it would show then. */
import { getAttestations } from "../../../api/attestations/reads.ts";
import { linkButton } from "../../components/layout.ts";
import type { Words } from "../../components/list-page.ts";
import { html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { readFilter, setParameters } from "./attestation-filter.ts";

/** As many as are counted. */
const MAX_COUNTED = 20;

type Relaxation = { drop: readonly string[]; are(count: string): string; offer: string };

/** In the order in which they are tried: the filter that people forget first. */
const RELAXATIONS: readonly Relaxation[] = [
  { drop: ["since", "from", "to"], are: (count) => `${count} outside of this time`, offer: "Search all time" },
  { drop: ["is_compliant"], are: (count) => `${count} with the other verdict`, offer: "Any state" },
  { drop: ["type"], are: (count) => `${count} of other types`, offer: "Any type" },
  { drop: ["flow"], are: (count) => `${count} in other flows`, offer: "Any flow" },
  { drop: ["commit"], are: (count) => `${count} with other commits`, offer: "Any commit" },
  { drop: ["name"], are: (count) => `${count} with other names`, offer: "Any name" },
];

export async function nothingMatches(visit: Visit): Promise<Words> {
  const { query, to, here } = visit;
  const clear = linkButton(to.attestations(), "Clear filters");
  if (query.get("after"))
    return {
      icon: "search",
      title: "No older attestations",
      text: "The list ends before this page.",
      actions: html`${linkButton(here({ after: null }), "Newest attestations")}${clear}`,
    };
  const found = await firstRelaxation(visit);
  return {
    icon: "search",
    title: "Nothing matches these filters",
    text: found?.text ?? withoutHint(setParameters(query)),
    actions: html`${found && linkButton(found.href, found.offer)}${clear}`,
  };
}

/** Where dropping one filter is not enough, or there is only one. */
const withoutHint = (set: readonly string[]): string =>
  set.length === 1 && set[0] === "name" ? "No attestation has such a name." : "Fewer filters show more.";

/** The first filter without which something matches; null if there is none. */
async function firstRelaxation(visit: Visit): Promise<{ text: string; href: string; offer: string } | null> {
  const set = new Set<string>(setParameters(visit.query));
  for (const { drop, are, offer } of RELAXATIONS) {
    // Without its only filter, the list is that of "Clear filters".
    if (!drop.some((name) => set.has(name)) || [...set].every((name) => drop.includes(name))) continue;
    const query = new URLSearchParams(visit.query);
    for (const name of drop) query.delete(name);
    const filter = readFilter({ query, now: visit.now });
    const { data } = await visit.call(getAttestations, { query: { ...filter, per_page: MAX_COUNTED } });
    if (data.length === 0) continue;
    const isOne = data.length === 1;
    const count = data.length === MAX_COUNTED ? `${MAX_COUNTED} or more` : String(data.length);
    const text = `${are(`${count} ${isOne ? "attestation matches" : "attestations match"}`)}.`;
    return { text, href: visit.here(Object.fromEntries(drop.map((name) => [name, null]))), offer };
  }
  return null;
}
