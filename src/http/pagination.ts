/** How responses and pages say which page of a list they are. */
import type { PaginationValue } from "./schema.ts";

export const pageCount = (total: number, perPage: number): number => (perPage === 0 ? 0 : Math.ceil(total / perPage));

/** Of an envelope of style A: `{data, pagination}`; it is always present (semantics 13.93). */
export const presentPagination = (total: number, page: number, perPage: number): PaginationValue => ({
  total,
  page,
  per_page: perPage,
  page_count: pageCount(total, perPage),
});
