/** Explanations of verdicts. */
import type { Page } from "../../page/page.ts";
import { whyPage } from "./why.ts";

export const whyPages: readonly Page[] = [whyPage];
