/** Artifacts, attestations and their types. */
import type { Page } from "../../page/page.ts";

export const artifactsPages: readonly Page[] = [];
