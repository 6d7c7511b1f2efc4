/** Snapshots and their differences. */
import type { Page } from "../../page/page.ts";

export const snapshotsPages: readonly Page[] = [];
