/** Artifacts, attestations and their types. */
import type { Page } from "../../page/page.ts";
import { artifactPage } from "./artifact.ts";
import { artifactsPage } from "./artifacts.ts";
import { attestationTypePage } from "./attestation-type.ts";
import { attestationTypesPage } from "./attestation-types.ts";
import { attestationsPage } from "./attestations.ts";

export const artifactsPages: readonly Page[] = [
  artifactPage,
  artifactsPage,
  attestationsPage,
  attestationTypesPage,
  attestationTypePage,
];
