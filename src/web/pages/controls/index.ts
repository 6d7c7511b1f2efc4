/** Controls. */
import type { Page } from "../../page/page.ts";
import { controlPage } from "./control.ts";
import { controlsPage } from "./controls.ts";

export const controlsPages: readonly Page[] = [controlsPage, controlPage];
