/** All operations of the API: everything that the files of this folder export as an operation. */
import type { AssayOperation } from "./context.ts";
import * as actions from "./notifications/actions.ts";
import * as allowlists from "./environments/allowlists.ts";
import * as apiKeys from "./accounts/api-keys.ts";
import * as artifacts from "./flows/artifacts.ts";
import * as asserts from "./policies/asserts.ts";
import * as customAttestations from "./attestations/custom.ts";
import * as genericAttestations from "./attestations/generic.ts";
import * as jiraAttestations from "./attestations/jira.ts";
import * as junitAttestations from "./attestations/junit.ts";
import * as overrides from "./attestations/override.ts";
import * as pullRequestAttestations from "./attestations/pull-request.ts";
import * as attestationReads from "./attestations/reads.ts";
import * as snykAttestations from "./attestations/snyk.ts";
import * as sonarAttestations from "./attestations/sonar.ts";
import * as builds from "./flows/builds.ts";
import * as systemAttestations from "./attestations/system.ts";
import * as auditPackages from "./flows/audit-packages.ts";
import * as controlCoverage from "./policies/control-coverage.ts";
import * as controlDecisions from "./policies/control-decisions.ts";
import * as controlVersions from "./policies/control-versions.ts";
import * as controls from "./policies/controls.ts";
import * as customAttestationTypes from "./attestations/custom-attestation-types.ts";
import * as deployments from "./environments/deployments.ts";
import * as envDiff from "./environments/env-diff.ts";
import * as environmentAuditlog from "./environments/environment-auditlog.ts";
import * as environmentEvents from "./environments/environment-events.ts";
import * as environmentNotifications from "./notifications/environment-notifications.ts";
import * as environmentPolicies from "./environments/environment-policies.ts";
import * as environments from "./environments/environments.ts";
import * as flows from "./flows/flows.ts";
import * as membershipAuditLog from "./accounts/membership-audit-log.ts";
import * as meta from "./meta.ts";
import * as notificationConfig from "./notifications/notification-config.ts";
import * as organizations from "./accounts/organizations.ts";
import * as policies from "./policies/policies.ts";
import * as removed from "./removed.ts";
import * as repoReleases from "./flows/repo-releases.ts";
import * as reports from "./environments/reports.ts";
import * as repos from "./flows/repos.ts";
import * as schemas from "./schemas.ts";
import * as search from "./flows/search.ts";
import * as serviceAccounts from "./accounts/service-accounts.ts";
import * as snapshots from "./environments/snapshots.ts";
import * as tags from "./tags.ts";
import * as trails from "./flows/trails.ts";
import * as users from "./accounts/users.ts";
import * as inboundWebhooks from "./notifications/inbound-webhooks.ts";

const isOperation = (value: unknown): value is AssayOperation =>
  typeof value === "object" && value !== null && "handle" in value && "permission" in value;

const resources: readonly object[] = [
  actions,
  allowlists,
  apiKeys,
  artifacts,
  asserts,
  customAttestations,
  genericAttestations,
  jiraAttestations,
  junitAttestations,
  overrides,
  pullRequestAttestations,
  attestationReads,
  snykAttestations,
  sonarAttestations,
  systemAttestations,
  auditPackages,
  builds,
  controlCoverage,
  controlDecisions,
  controlVersions,
  controls,
  customAttestationTypes,
  deployments,
  envDiff,
  environmentAuditlog,
  environmentEvents,
  environmentNotifications,
  environmentPolicies,
  environments,
  flows,
  membershipAuditLog,
  meta,
  notificationConfig,
  organizations,
  policies,
  removed,
  repoReleases,
  reports,
  repos,
  schemas,
  search,
  serviceAccounts,
  snapshots,
  tags,
  trails,
  users,
  inboundWebhooks,
];

export const operations: readonly AssayOperation[] = resources.flatMap((resource) =>
  Object.values(resource).flat().filter(isOperation),
);
