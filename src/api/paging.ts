/**
 * Pages of lists (operations, Paging). A list has one `pages({...})`: its limits are in the query schema, so that
 * figures outside are refused before a handler runs, and the same value turns the query into a window and the result
 * into an envelope. A page beyond the end is an empty list with the page number echoed.
 */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { Closed, Pagination, named } from "../http/schema.ts";
import type { PaginationValue } from "../http/schema.ts";

/** Numbers above are no integers in JSON any more. */
const LARGEST = Number.MAX_SAFE_INTEGER;

/** Items to skip and to give; what a store's list takes as LIMIT and OFFSET. */
export type Window = { page: number; perPage: number; limit: number; offset: number };
type Asked = { page?: number | undefined; per_page?: number | undefined };

/**
 * The paging of one list.
 * @param perPage items on a page unless asked otherwise
 * @param most largest page, null for no cap
 * @param least 0 where a page of nothing asks for the counts alone (semantics 13, row 93)
 * @param onRequest whether the list is bare unless `page` or `per_page` is given
 */
export function pages({
  perPage,
  most,
  least = 1,
  onRequest = false,
}: {
  perPage: number;
  most: number | null;
  least?: 0 | 1;
  onRequest?: boolean;
}) {
  const window = (query: Asked): Window => {
    const page = query.page ?? 1;
    const size = query.per_page ?? perPage;
    // SQLite takes 64-bit integers only; no table reaches as far as the largest page number times the largest page.
    return { page, perPage: size, limit: size, offset: Math.min((page - 1) * size, LARGEST) };
  };
  return {
    /** Properties for the query schema. */
    query: {
      page: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LARGEST,
          ...(onRequest ? {} : { default: 1 }),
          description: "Number of the page, from 1",
        }),
      ),
      per_page: Type.Optional(
        Type.Integer({
          minimum: least,
          maximum: most ?? LARGEST,
          ...(onRequest
            ? {
                description: `Items on a page, ${perPage} unless given; without page and per_page the answer is the bare list of everything`,
              }
            : { default: perPage, description: "Items on a page" }),
        }),
      ),
    },
    window,
    /** As window; null when neither parameter was given. */
    windowIfAsked: (query: Asked): Window | null =>
      query.page === undefined && query.per_page === undefined ? null : window(query),
  };
}

const pageCount = (total: number, perPage: number): number => (perPage === 0 ? 0 : Math.ceil(total / perPage));

/** Style A: `{data, pagination}`; `pagination` is always sent (semantics 13, row 93). */
export const pagination = (total: number, page: number, perPage: number): PaginationValue => ({
  total,
  page,
  per_page: perPage,
  page_count: pageCount(total, perPage),
});

/** Shape of a style A page. */
export const PageOf = <T extends TSchema>(component: string, item: T) =>
  named(component, Closed({ data: Type.Array(item), pagination: Pagination }));

/** Style B: the counts of the envelope, to be spread beside the items. */
export const counts = (total: number, page: number, perPage: number) => ({
  page,
  per_page: perPage,
  total_pages: pageCount(total, perPage),
  total_count: total,
});

/** Properties of a style B envelope, to be spread beside the items in its shape. */
export const Counts = {
  page: Type.Integer(),
  per_page: Type.Integer(),
  total_pages: Type.Integer(),
  total_count: Type.Integer(),
};

/** The headers of style D, for the OpenAPI document. */
export const PAGING_HEADERS = {
  "X-Total-Count": Type.Integer(),
  "X-Per-Page": Type.Integer(),
  "X-Current-Page": Type.Integer(),
  "X-Total-Pages": Type.Integer(),
  Link: Type.String(),
};

/**
 * Style D: the headers of a bare list. `Link` (RFC 8288) comes only with more than one page: the first and the last,
 * and what lies beside; before a page beyond the end lies the last one.
 * @param address absolute address of the list without a query
 * @param query what was asked for; all of it but the page stays in the links
 */
export function pagingHeaders(
  total: number,
  { page, perPage }: Window,
  address: string,
  query: Readonly<Record<string, unknown>>,
): Record<string, string> {
  const last = pageCount(total, perPage);
  const headers = {
    "X-Total-Count": `${total}`,
    "X-Per-Page": `${perPage}`,
    "X-Current-Page": `${page}`,
    "X-Total-Pages": `${last}`,
  };
  if (last < 2) return headers;
  const link = (rel: string, number: number): string => `<${address}?${withPage(query, number)}>; rel="${rel}"`;
  const links = [link("first", 1)];
  if (page > 1) links.push(link("prev", Math.min(page - 1, last)));
  if (page < last) links.push(link("next", page + 1));
  links.push(link("last", last));
  return { ...headers, Link: links.join(", ") };
}

function withPage(query: Readonly<Record<string, unknown>>, page: number): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (name !== "page" && value !== undefined)
      for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one));
  parameters.append("page", String(page));
  return parameters.toString();
}
