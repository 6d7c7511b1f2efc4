/** Pages of lists that an operation answers as a whole. */
import { pageOf } from "./lists.ts";
import type { Pagination } from "./lists.ts";

/** The rows of the page in the address, or of the last one, and what `pager` needs. */
export function sliceOf<T>(
  query: URLSearchParams,
  rows: readonly T[],
  per_page: number,
): { shown: readonly T[]; pages: Pagination } {
  const page_count = Math.ceil(rows.length / per_page);
  const page = Math.max(1, Math.min(pageOf(query), page_count));
  const shown = rows.slice((page - 1) * per_page, page * per_page);
  return { shown, pages: { total: rows.length, page, per_page, page_count } };
}
