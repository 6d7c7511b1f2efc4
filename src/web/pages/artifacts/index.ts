/** Artifacts, attestations and their types. */
import type { Page } from "../../page/page.ts";
import { artifactPage } from "./artifact.ts";

export const artifactsPages: readonly Page[] = [artifactPage];
