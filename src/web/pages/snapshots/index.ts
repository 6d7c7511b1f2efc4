/** Snapshots, and their differences. */
import type { Page } from "../../page/page.ts";
import { environmentDiffPage } from "./env-diff.ts";
import { snapshotPages } from "./snapshot.ts";

export const snapshotsPages: readonly Page[] = [...snapshotPages, environmentDiffPage];
