/** Policies. */
import type { Page } from "../../page/page.ts";

export const policiesPages: readonly Page[] = [];
