/** What decides whether the navigation shows a section. */
import { listServiceAccounts } from "../api/accounts/service-accounts.ts";
import { getAttestations } from "../api/attestations/reads.ts";
import { listEnvs } from "../api/environments/environments.ts";
import { listArtifacts } from "../api/flows/artifacts.ts";
import { getFlows } from "../api/flows/flows.ts";
import { listRepos } from "../api/flows/repos.ts";
import { listActions } from "../api/notifications/actions.ts";
import { listControls } from "../api/policies/controls.ts";
import { listPolicies } from "../api/policies/policies.ts";
import type { PageServerDependencies } from "./page/serve.ts";

/** A section is shown to those who may read what it lists. */
export const sections: PageServerDependencies["sections"] = {
  overview: getFlows,
  flows: getFlows,
  environments: listEnvs,
  artifacts: listArtifacts,
  attestations: getAttestations,
  policies: listPolicies,
  controls: listControls,
  repos: listRepos,
  actions: listActions,
  settings: listServiceAccounts,
};
