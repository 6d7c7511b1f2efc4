/** All pages. Written by `make golden` from the files of this folder that export one. */
import { isPage } from "../page/page.ts";
import type { Page } from "../page/page.ts";
import * as artifactsArtifact from "./artifacts/artifact.ts";
import * as artifactsArtifacts from "./artifacts/artifacts.ts";
import * as artifactsAttestationType from "./artifacts/attestation-type.ts";
import * as artifactsAttestationTypes from "./artifacts/attestation-types.ts";
import * as artifactsAttestations from "./artifacts/attestations.ts";
import * as binderBinder from "./binder/binder.ts";
import * as controlsControl from "./controls/control.ts";
import * as controlsControls from "./controls/controls.ts";
import * as environmentsEnvironment from "./environments/environment.ts";
import * as environmentsEnvironments from "./environments/environments.ts";
import * as flowsEvidence from "./flows/evidence.ts";
import * as flowsFlow from "./flows/flow.ts";
import * as flowsFlows from "./flows/flows.ts";
import * as flowsTrail from "./flows/trail.ts";
import * as homeChanges from "./home/changes.ts";
import * as homeDeployments from "./home/deployments.ts";
import * as homeKeyboard from "./home/keyboard.ts";
import * as homeMore from "./home/more.ts";
import * as homeOverview from "./home/overview.ts";
import * as homeRepo from "./home/repo.ts";
import * as homeRepos from "./home/repos.ts";
import * as homeSearch from "./home/search.ts";
import * as homeViews from "./home/views.ts";
import * as policiesPolicies from "./policies/policies.ts";
import * as policiesPolicy from "./policies/policy.ts";
import * as settingsAction from "./settings/action.ts";
import * as settingsActions from "./settings/actions.ts";
import * as settingsAuditLog from "./settings/audit-log.ts";
import * as settingsClients from "./settings/clients.ts";
import * as settingsGeneral from "./settings/general.ts";
import * as settingsMembers from "./settings/members.ts";
import * as settingsRetention from "./settings/retention.ts";
import * as settingsServiceAccount from "./settings/service-account.ts";
import * as settingsServiceAccounts from "./settings/service-accounts.ts";
import * as settingsSettings from "./settings/settings.ts";
import * as settingsWebhooks from "./settings/webhooks.ts";
import * as snapshotsEnvDiff from "./snapshots/env-diff.ts";
import * as snapshotsSnapshot from "./snapshots/snapshot.ts";
import * as whyWhy from "./why/why.ts";

const files: readonly object[] = [
  artifactsArtifact,
  artifactsArtifacts,
  artifactsAttestationType,
  artifactsAttestationTypes,
  artifactsAttestations,
  binderBinder,
  controlsControl,
  controlsControls,
  environmentsEnvironment,
  environmentsEnvironments,
  flowsEvidence,
  flowsFlow,
  flowsFlows,
  flowsTrail,
  homeChanges,
  homeDeployments,
  homeKeyboard,
  homeMore,
  homeOverview,
  homeRepo,
  homeRepos,
  homeSearch,
  homeViews,
  policiesPolicies,
  policiesPolicy,
  settingsAction,
  settingsActions,
  settingsAuditLog,
  settingsClients,
  settingsGeneral,
  settingsMembers,
  settingsRetention,
  settingsServiceAccount,
  settingsServiceAccounts,
  settingsSettings,
  settingsWebhooks,
  snapshotsEnvDiff,
  snapshotsSnapshot,
  whyWhy,
];

export const pages: readonly Page[] = files.flatMap((file) => Object.values(file).flat().filter(isPage));
