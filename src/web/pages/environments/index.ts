/** Environments. */
import type { Page } from "../../page/page.ts";

export const environmentsPages: readonly Page[] = [];
