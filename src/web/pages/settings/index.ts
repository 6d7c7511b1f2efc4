/** Settings, actions and the account. */
import type { Page } from "../../page/page.ts";

export const settingsPages: readonly Page[] = [];
