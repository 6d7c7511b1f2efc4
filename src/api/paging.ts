/**
 * Paging of lists (operations 1.4). A list has one `definePaging({...})`: its limits are part of the query schema,
 * so values out of range are refused before a handler runs, and the same definition turns the query into a window. A
 * page beyond the end is an empty list with the page number echoed.
 */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { pageCount } from "../http/pagination.ts";
import { invalid } from "../errors.ts";
import { Closed, Pagination, named } from "../http/schema.ts";

/** JSON numbers above this lose precision. */
export const MAX_PAGE_NUMBER = Number.MAX_SAFE_INTEGER;

/** A page, with the LIMIT and OFFSET for a store's list. */
export type PageWindow = { page: number; perPage: number; limit: number; offset: number };
type PageQuery = { page?: number | undefined; per_page?: number | undefined };

/**
 * Defines the paging of one list.
 * @param perPage default page size
 * @param maxPerPage largest page size, null for no maximum
 * @param minPerPage 0 where an empty page requests the counts alone (semantics 13.93)
 * @param optional whether the list is bare unless `page` or `per_page` is given
 */
export function definePaging({
  perPage,
  maxPerPage,
  minPerPage = 1,
  optional = false,
}: {
  perPage: number;
  maxPerPage: number | null;
  minPerPage?: 0 | 1;
  optional?: boolean;
}) {
  const window = (query: PageQuery): PageWindow => {
    const page = query.page ?? 1;
    const size = query.per_page ?? perPage;
    // SQLite accepts 64-bit integers only; no table has as many rows as the largest page number times the page size.
    return { page, perPage: size, limit: size, offset: Math.min((page - 1) * size, MAX_PAGE_NUMBER) };
  };
  return {
    /** Properties for the query schema. */
    query: {
      page: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: MAX_PAGE_NUMBER,
          ...(optional ? {} : { default: 1 }),
          description: "Page number, starting at 1",
        }),
      ),
      per_page: Type.Optional(
        Type.Integer({
          minimum: minPerPage,
          maximum: maxPerPage ?? MAX_PAGE_NUMBER,
          ...(optional
            ? {
                description:
                  `Items per page, ${perPage} by default; without \`page\` and \`per_page\` the response is the bare ` +
                  "list of all items",
              }
            : { default: perPage, description: "Items per page" }),
        }),
      ),
    },
    window,
    /** As window; null if neither parameter is given. */
    optionalWindow: (query: PageQuery): PageWindow | null =>
      query.page === undefined && query.per_page === undefined ? null : window(query),
  };
}

/** The shape of a page of style A. */
export const PageOf = <T extends TSchema>(component: string, item: T) =>
  named(component, Closed({ data: Type.Array(item), pagination: Pagination }));

/** Of a list that is bare by the contract: the parameter that asks for an envelope of style A. */
export const ENVELOPE = {
  envelope: Type.Optional(
    Type.Boolean({
      default: false,
      description: "One page as `{data, pagination}`, with the number of all that match, instead of the bare list",
    }),
  ),
};

/** Of a page of trails or artifacts. */
export const StateCounts = Closed(
  { COMPLIANT: Type.Integer(), "NON-COMPLIANT": Type.Integer(), INCOMPLETE: Type.Integer() },
  { description: "How many match in each state, whatever `state` asks for" },
);

/** How many of those records a list has that asks for one state, or for none in particular. */
export const totalIn = <S extends string>(states: Readonly<Record<S, number>>, state: S | null | undefined): number =>
  state ? states[state] : Object.values<number>(states).reduce((total, number) => total + number, 0);

/** Envelope of style B: its counts, to be spread next to the items. */
export const pageCounts = (total: number, page: number, perPage: number) => ({
  page,
  per_page: perPage,
  total_pages: pageCount(total, perPage),
  total_count: total,
});

/** The properties of an envelope of style B, to be spread next to the items in its shape. */
export const PageCounts = {
  page: Type.Integer(),
  per_page: Type.Integer(),
  total_pages: Type.Integer(),
  total_count: Type.Integer(),
};

/** The headers of style D in the OpenAPI document. */
export const PAGING_HEADERS = {
  "X-Total-Count": Type.Integer(),
  "X-Per-Page": Type.Integer(),
  "X-Current-Page": Type.Integer(),
  "X-Total-Pages": Type.Integer(),
  Link: Type.String(),
};

/**
 * Style D: the headers of a bare list. `Link` (RFC 8288) is sent only if there is more than one page: it names the
 * first, last, previous and next page. The page before one beyond the end is the last one.
 * @param address absolute URL of the list without a query
 * @param query parameters of the request; the links keep all of them except the page
 */
export function buildPagingHeaders(
  total: number,
  { page, perPage }: PageWindow,
  { address, query }: { address: string; query: Readonly<Record<string, unknown>> },
): Record<string, string> {
  const last = pageCount(total, perPage);
  const headers = {
    "X-Total-Count": `${total}`,
    "X-Per-Page": `${perPage}`,
    "X-Current-Page": `${page}`,
    "X-Total-Pages": `${last}`,
  };
  if (last < 2) return headers;
  const link = (rel: string, number: number): string =>
    `<${address}?${formatQuery(query, { page: String(number) })}>; rel="${rel}"`;
  const links = [link("first", 1)];
  if (page > 1) links.push(link("prev", Math.min(page - 1, last)));
  if (page < last) links.push(link("next", page + 1));
  links.push(link("last", last));
  return { ...headers, Link: links.join(", ") };
}

/** The query of another page of a list: `changes` replace parameters, or remove them where null. */
export function formatQuery(
  query: Readonly<Record<string, unknown>>,
  changes: Readonly<Record<string, string | null>>,
): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || Object.hasOwn(changes, name)) continue;
    for (const item of Array.isArray(value) ? value : [value]) parameters.append(name, String(item));
  }
  for (const [name, value] of Object.entries(changes)) if (value !== null) parameters.append(name, value);
  return parameters.toString();
}

/** A cursor holds the key of the last record of the previous page, encoded so that clients do not calculate with it. */
export const toCursor = (id: number): string => Buffer.from(`a${id}`).toString("base64url");
/** @param parameter name of the query parameter @throws AppError invalid on the parameter */
export function parseCursor(parameter: string, text: string): number {
  const match = /^a(\d{1,15})$/.exec(Buffer.from(text, "base64url").toString("latin1"));
  if (!match) throw invalid({ [parameter]: `Input should be the token of a previous page [input: ${text}]` });
  return Number(match[1]);
}
