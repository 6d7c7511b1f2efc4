/** Explanations of verdicts. */
import type { Page } from "../../page/page.ts";

export const whyPages: readonly Page[] = [];
