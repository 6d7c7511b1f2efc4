/** All operations of the API: everything that the files of this folder export as an operation. */
import type { AssayOperation } from "./kit.ts";
import * as actions from "./actions.ts";
import * as allowlists from "./allowlists.ts";
import * as apiKeys from "./api-keys.ts";
import * as artifacts from "./artifacts.ts";
import * as asserts from "./asserts.ts";
import * as customAttestations from "./attestations/custom.ts";
import * as genericAttestations from "./attestations/generic.ts";
import * as jiraAttestations from "./attestations/jira.ts";
import * as junitAttestations from "./attestations/junit.ts";
import * as overrides from "./attestations/override.ts";
import * as pullRequestAttestations from "./attestations/pull-request.ts";
import * as attestationReads from "./attestations/reads.ts";
import * as snykAttestations from "./attestations/snyk.ts";
import * as sonarAttestations from "./attestations/sonar.ts";
import * as builds from "./builds.ts";
import * as systemAttestations from "./attestations/system.ts";
import * as auditPackages from "./audit-packages.ts";
import * as controlCoverage from "./control-coverage.ts";
import * as controlDecisions from "./control-decisions.ts";
import * as controlVersions from "./control-versions.ts";
import * as controls from "./controls.ts";
import * as customAttestationTypes from "./custom-attestation-types.ts";
import * as deployments from "./deployments.ts";
import * as envDiff from "./env-diff.ts";
import * as environmentAuditlog from "./environment-auditlog.ts";
import * as environmentEvents from "./environment-events.ts";
import * as environmentNotifications from "./environment-notifications.ts";
import * as environmentPolicies from "./environment-policies.ts";
import * as environments from "./environments.ts";
import * as flows from "./flows.ts";
import * as membershipAuditLog from "./membership-audit-log.ts";
import * as meta from "./meta.ts";
import * as notificationConfig from "./notification-config.ts";
import * as organizations from "./organizations.ts";
import * as policies from "./policies.ts";
import * as removed from "./removed.ts";
import * as repoReleases from "./repo-releases.ts";
import * as reports from "./reports.ts";
import * as repos from "./repos.ts";
import * as schemas from "./schemas.ts";
import * as search from "./search.ts";
import * as serviceAccounts from "./service-accounts.ts";
import * as snapshots from "./snapshots.ts";
import * as tags from "./tags.ts";
import * as trails from "./trails.ts";
import * as users from "./users.ts";
import * as inboundWebhooks from "./inbound-webhooks.ts";

const isOperation = (value: unknown): value is AssayOperation =>
  typeof value === "object" && value !== null && "handle" in value && "permission" in value;

const resources: readonly object[] = [
  actions, allowlists, apiKeys, artifacts, asserts, customAttestations, genericAttestations, jiraAttestations, junitAttestations,
  overrides, pullRequestAttestations, attestationReads, snykAttestations, sonarAttestations, systemAttestations, auditPackages, builds,
  controlCoverage, controlDecisions, controlVersions, controls, customAttestationTypes, deployments, envDiff, environmentAuditlog,
  environmentEvents, environmentNotifications, environmentPolicies, environments, flows, membershipAuditLog, meta, notificationConfig,
  organizations, policies, removed, repoReleases, reports, repos, schemas, search, serviceAccounts, snapshots, tags, trails, users,
  inboundWebhooks,
];

export const operations: readonly AssayOperation[] = resources.flatMap((resource) =>
  Object.values(resource).flat().filter(isOperation),
);
