/** The filters of the list of attestations, from the address to the query of the operation. */
import type { getAttestations } from "../../../api/attestations/reads.ts";
import type { CallInput } from "../../../http/in-process.ts";
import type { Visit } from "../../page/page.ts";
import { dayBoundOf } from "../../components/lists.ts";
import { typeOf } from "./choices.ts";

type Filter = Omit<NonNullable<CallInput<typeof getAttestations>["query"]>, "after" | "per_page">;

const DAY = 86_400;

/** How far back a list goes, by the value in the address. */
export const SINCE: Readonly<Record<string, { text: string; seconds: number }>> = {
  "1d": { text: "Last 24 hours", seconds: DAY },
  "7d": { text: "Last 7 days", seconds: 7 * DAY },
  "30d": { text: "Last 30 days", seconds: 30 * DAY },
  "90d": { text: "Last 90 days", seconds: 90 * DAY },
};

/** The parameters that narrow the list. */
const PARAMETERS = ["name", "type", "is_compliant", "flow", "since", "from", "to", "commit", "attestation_id"] as const;

/** The parameters that are set. */
export const setParameters = (query: URLSearchParams): (typeof PARAMETERS)[number][] =>
  PARAMETERS.filter((name) => (query.get(name) ?? "") !== "");

/** The query of the operation. What is not a value of its parameter filters nothing. */
export function readFilter({ query, now }: Pick<Visit, "query" | "now">): Filter {
  const verdict = query.get("is_compliant");
  const since = query.get("since") ?? "";
  const age = Object.hasOwn(SINCE, since) ? SINCE[since] : undefined;
  const from = Math.max(age ? now - age.seconds : 0, dayBoundOf(query, "from") ?? 0);
  const to = dayBoundOf(query, "to");
  const type = typeOf(query);
  const flow = query.get("flow") ?? "";
  return {
    ...nameFilter(query.get("name") ?? "", query.get("match")),
    ...(type === null ? {} : { type: [type] }),
    ...(flow === "" ? {} : { flow: [flow] }),
    is_compliant: verdict === "true" || verdict === "false" ? verdict : null,
    from_timestamp: from === 0 ? null : Math.floor(from),
    to_timestamp: to === null ? null : Math.floor(to),
    commit: query.get("commit")?.trim().toLowerCase() || null,
    attestation_id: query.get("attestation_id") || null,
  };
}

function nameFilter(text: string, match: string | null): Filter {
  const name = text.trim();
  if (name === "") return {};
  if (match === "exact") return { name };
  if (match === "regex") return { name_regex: name };
  return { name_regex: `(?i)${name.replace(/[\\.+*?()|[\]{}^$]/g, String.raw`\$&`)}` };
}
