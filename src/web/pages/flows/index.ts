/** Flows and trails. */
import type { Page } from "../../page/page.ts";
import { flowPage } from "./flow.ts";
import { flowsPage } from "./flows.ts";

export const flowsPages: readonly Page[] = [flowsPage, flowPage];
