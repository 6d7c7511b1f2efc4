/** All operations. Written by `make golden` from the files of this folder that export one. */
import { isOperation } from "./context.ts";
import type { AssayOperation } from "./context.ts";
import * as accountsApiKeys from "./accounts/api-keys.ts";
import * as accountsAuditLog from "./accounts/audit-log.ts";
import * as accountsMembers from "./accounts/members.ts";
import * as accountsMembershipAuditLog from "./accounts/membership-audit-log.ts";
import * as accountsOrganizations from "./accounts/organizations.ts";
import * as accountsOwnApiKeys from "./accounts/own-api-keys.ts";
import * as accountsPrincipal from "./accounts/principal.ts";
import * as accountsRetention from "./accounts/retention.ts";
import * as accountsServiceAccounts from "./accounts/service-accounts.ts";
import * as accountsUnknownInputs from "./accounts/unknown-inputs.ts";
import * as accountsUsers from "./accounts/users.ts";
import * as accountsViews from "./accounts/views.ts";
import * as attestationsCustomAttestationTypes from "./attestations/custom-attestation-types.ts";
import * as attestationsCustom from "./attestations/custom.ts";
import * as attestationsEvidence from "./attestations/evidence.ts";
import * as attestationsGeneric from "./attestations/generic.ts";
import * as attestationsJira from "./attestations/jira.ts";
import * as attestationsJunit from "./attestations/junit.ts";
import * as attestationsOverride from "./attestations/override.ts";
import * as attestationsPullRequest from "./attestations/pull-request.ts";
import * as attestationsReads from "./attestations/reads.ts";
import * as attestationsSbomElements from "./attestations/sbom-elements.ts";
import * as attestationsSnyk from "./attestations/snyk.ts";
import * as attestationsSonar from "./attestations/sonar.ts";
import * as attestationsSystem from "./attestations/system.ts";
import * as attestationsTrailAttestations from "./attestations/trail-attestations.ts";
import * as attestationsTryAttestationType from "./attestations/try-attestation-type.ts";
import * as environmentsAllowlists from "./environments/allowlists.ts";
import * as environmentsArtifactRuns from "./environments/artifact-runs.ts";
import * as environmentsAuditBinder from "./environments/audit-binder.ts";
import * as environmentsDeployments from "./environments/deployments.ts";
import * as environmentsEnvDiff from "./environments/env-diff.ts";
import * as environmentsEnvironmentAuditlog from "./environments/environment-auditlog.ts";
import * as environmentsEnvironmentEvents from "./environments/environment-events.ts";
import * as environmentsEnvironmentPolicies from "./environments/environment-policies.ts";
import * as environmentsEnvironments from "./environments/environments.ts";
import * as environmentsExplanations from "./environments/explanations.ts";
import * as environmentsLogicalEnvironments from "./environments/logical-environments.ts";
import * as environmentsOverview from "./environments/overview.ts";
import * as environmentsPastArtifacts from "./environments/past-artifacts.ts";
import * as environmentsPastMoment from "./environments/past-moment.ts";
import * as environmentsPastPolicies from "./environments/past-policies.ts";
import * as environmentsPast from "./environments/past.ts";
import * as environmentsPeriodChanges from "./environments/period-changes.ts";
import * as environmentsReports from "./environments/reports.ts";
import * as environmentsSnapshotDiff from "./environments/snapshot-diff.ts";
import * as environmentsSnapshotHistory from "./environments/snapshot-history.ts";
import * as environmentsSnapshots from "./environments/snapshots.ts";
import * as flowsArtifacts from "./flows/artifacts.ts";
import * as flowsAuditPackages from "./flows/audit-packages.ts";
import * as flowsBuilds from "./flows/builds.ts";
import * as flowsFlows from "./flows/flows.ts";
import * as flowsNameSearch from "./flows/name-search.ts";
import * as flowsRepoReleases from "./flows/repo-releases.ts";
import * as flowsRepos from "./flows/repos.ts";
import * as flowsSearch from "./flows/search.ts";
import * as flowsTemplatePreview from "./flows/template-preview.ts";
import * as flowsTrailChecklist from "./flows/trail-checklist.ts";
import * as flowsTrailExplanations from "./flows/trail-explanations.ts";
import * as flowsTrails from "./flows/trails.ts";
import * as meta from "./meta.ts";
import * as notificationsActionDeliveries from "./notifications/action-deliveries.ts";
import * as notificationsActions from "./notifications/actions.ts";
import * as notificationsEnvironmentNotifications from "./notifications/environment-notifications.ts";
import * as notificationsInboundWebhookSettings from "./notifications/inbound-webhook-settings.ts";
import * as notificationsInboundWebhooks from "./notifications/inbound-webhooks.ts";
import * as notificationsNotificationConfig from "./notifications/notification-config.ts";
import * as operatorDeliveries from "./operator/deliveries.ts";
import * as operatorOrganizations from "./operator/organizations.ts";
import * as operatorSessions from "./operator/sessions.ts";
import * as operatorTargetSecrets from "./operator/target-secrets.ts";
import * as operatorUserApiKeys from "./operator/user-api-keys.ts";
import * as operatorUsers from "./operator/users.ts";
import * as policiesAsserts from "./policies/asserts.ts";
import * as policiesChangePreview from "./policies/change-preview.ts";
import * as policiesControlCoverage from "./policies/control-coverage.ts";
import * as policiesControlDecisions from "./policies/control-decisions.ts";
import * as policiesControlVersions from "./policies/control-versions.ts";
import * as policiesControls from "./policies/controls.ts";
import * as policiesPolicies from "./policies/policies.ts";
import * as policiesPolicyPreview from "./policies/policy-preview.ts";
import * as policiesRegoEvaluationReads from "./policies/rego-evaluation-reads.ts";
import * as policiesRegoEvaluations from "./policies/rego-evaluations.ts";
import * as policiesRegoPolicies from "./policies/rego-policies.ts";
import * as policiesStartPreview from "./policies/start-preview.ts";
import * as removed from "./removed.ts";
import * as schemas from "./schemas.ts";
import * as tags from "./tags.ts";

const resources: readonly object[] = [
  accountsApiKeys,
  accountsAuditLog,
  accountsMembers,
  accountsMembershipAuditLog,
  accountsOrganizations,
  accountsOwnApiKeys,
  accountsPrincipal,
  accountsRetention,
  accountsServiceAccounts,
  accountsUnknownInputs,
  accountsUsers,
  accountsViews,
  attestationsCustomAttestationTypes,
  attestationsCustom,
  attestationsEvidence,
  attestationsGeneric,
  attestationsJira,
  attestationsJunit,
  attestationsOverride,
  attestationsPullRequest,
  attestationsReads,
  attestationsSbomElements,
  attestationsSnyk,
  attestationsSonar,
  attestationsSystem,
  attestationsTrailAttestations,
  attestationsTryAttestationType,
  environmentsAllowlists,
  environmentsArtifactRuns,
  environmentsAuditBinder,
  environmentsDeployments,
  environmentsEnvDiff,
  environmentsEnvironmentAuditlog,
  environmentsEnvironmentEvents,
  environmentsEnvironmentPolicies,
  environmentsEnvironments,
  environmentsExplanations,
  environmentsLogicalEnvironments,
  environmentsOverview,
  environmentsPastArtifacts,
  environmentsPastMoment,
  environmentsPastPolicies,
  environmentsPast,
  environmentsPeriodChanges,
  environmentsReports,
  environmentsSnapshotDiff,
  environmentsSnapshotHistory,
  environmentsSnapshots,
  flowsArtifacts,
  flowsAuditPackages,
  flowsBuilds,
  flowsFlows,
  flowsNameSearch,
  flowsRepoReleases,
  flowsRepos,
  flowsSearch,
  flowsTemplatePreview,
  flowsTrailChecklist,
  flowsTrailExplanations,
  flowsTrails,
  meta,
  notificationsActionDeliveries,
  notificationsActions,
  notificationsEnvironmentNotifications,
  notificationsInboundWebhookSettings,
  notificationsInboundWebhooks,
  notificationsNotificationConfig,
  operatorDeliveries,
  operatorOrganizations,
  operatorSessions,
  operatorTargetSecrets,
  operatorUserApiKeys,
  operatorUsers,
  policiesAsserts,
  policiesChangePreview,
  policiesControlCoverage,
  policiesControlDecisions,
  policiesControlVersions,
  policiesControls,
  policiesPolicies,
  policiesPolicyPreview,
  policiesRegoEvaluationReads,
  policiesRegoEvaluations,
  policiesRegoPolicies,
  policiesStartPreview,
  removed,
  schemas,
  tags,
];

const all: readonly AssayOperation[] = resources.flatMap((resource) =>
  Object.values(resource).flat().filter(isOperation),
);

export const operations = all.filter(({ permission }) => permission !== "operator");
/** What only the operator may do. */
export const operatorOperations = all.filter(({ permission }) => permission === "operator");
