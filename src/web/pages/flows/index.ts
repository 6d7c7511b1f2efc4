/** Flows and trails. */
import type { Page } from "../../page/page.ts";
import { evidencePage } from "./evidence.ts";
import { flowPage } from "./flow.ts";
import { flowsPage } from "./flows.ts";
import { trailPage } from "./trail.ts";

export const flowsPages: readonly Page[] = [flowsPage, flowPage, trailPage, evidencePage];
