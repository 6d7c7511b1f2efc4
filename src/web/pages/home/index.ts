/** The overview, search and repositories. */
import type { Page } from "../../page/page.ts";

export const homePages: readonly Page[] = [];
