/**
 * Time travel. `?at=` puts a page into the past: it then shows what was stored at that moment, its links keep the
 * moment, and nothing can be changed. The rights are those of now.
 */
import { getMoment } from "../../api/environments/past-moment.ts";
import type { Permission } from "../../domain/access.ts";
import { linksFor } from "./links.ts";
import type { Moment, Visit } from "./page.ts";

/** What the address asks for; null for the present. */
export function askedMoment({ org, query }: Pick<Visit, "org" | "query">): string | null {
  const text = org === "" ? "" : (query.get("at")?.trim() ?? "");
  return text === "" ? null : text;
}

/**
 * The visit as of the moment that its address asks for; itself without one.
 * @throws AppError for a text that names no moment
 */
export async function toMoment(visit: Visit): Promise<Visit> {
  const asked = askedMoment(visit);
  if (asked === null) return visit;
  const { at } = await visit.call(getMoment, { query: { at: inFull(asked, visit.params["env"]) } });
  const moment = { ...roundUp(at), now: visit.now };
  // The page's own links have the resolved moment: what was relative to now would move.
  visit.query.set("at", moment.text);
  const values = {
    now: moment.at,
    moment,
    to: linksFor(visit.to.root, visit.org, moment.text),
    may: (operation: Parameters<Visit["may"]>[0]) => isRead(operation.permission) && visit.may(operation),
  } satisfies Partial<Visit>;
  return Object.create(
    visit,
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value, enumerable: true }])),
  ) as Visit;
}

const isRead = (permission: Permission): boolean =>
  permission.endsWith(":read") || permission === "public" || permission === "authenticated";

/** A position in the history of the environment of the page may stand without its name: `#12`, `~1`, `12`, `-1`. */
const inFull = (text: string, environment: string | undefined): string => {
  if (environment === undefined) return text;
  if (text === environment) return `${environment}#-1`;
  if (/^[#~]/.test(text)) return `${environment}${text}`;
  return /^-?\d{1,9}$/.test(text) ? `${environment}#${text}` : text;
};

/** To the millisecond, and not before the snapshot that is meant. */
function roundUp(seconds: number): { at: number; text: string } {
  const milliseconds = Math.ceil(seconds * 1000);
  return { at: milliseconds / 1000, text: momentText(milliseconds / 1000) };
}

/** A moment in an address: `2026-10-12T09:00Z`, with seconds where it has some. @param seconds epoch seconds */
export const momentText = (seconds: number): string =>
  new Date(seconds * 1000).toISOString().replace(/(?::00)?\.000Z$/, "Z");

/** The expression of a snapshot read for the snapshot in force at a moment. */
export const inForceAt = ({ at }: Pick<Moment, "at">): string =>
  `@{${new Date(at * 1000).toISOString().replace("Z", "")}}`;
