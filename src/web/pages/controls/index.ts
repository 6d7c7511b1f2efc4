/** Controls. */
import type { Page } from "../../page/page.ts";

export const controlsPages: readonly Page[] = [];
