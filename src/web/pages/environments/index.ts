/** Environments. */
import type { Page } from "../../page/page.ts";
import { environmentPage } from "./environment.ts";
import { environmentsPage } from "./environments.ts";

export const environmentsPages: readonly Page[] = [environmentsPage, environmentPage];
