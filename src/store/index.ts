/** All stores over one connection. Each prepares its statements once. */
import { actionStore } from "./actions.ts";
import { allowlistStore } from "./allowlists.ts";
import { apiKeyStore } from "./api-keys.ts";
import { artifactStore } from "./artifacts.ts";
import { attestationListStore } from "./attestation-lists.ts";
import { attestationSearchStore } from "./attestation-series.ts";
import { attestationStore } from "./attestations.ts";
import { auditStore } from "./audit.ts";
import { auditPackageStore } from "./audit-packages.ts";
import { largeJsonStore } from "./large-json.ts";
import { buildStore } from "./builds.ts";
import { clockStore } from "./clock.ts";
import { controlCoverageStore } from "./control-coverage.ts";
import { controlDecisionStore } from "./control-decisions.ts";
import { controlStore } from "./controls.ts";
import { customAttestationTypeStore } from "./custom-attestation-types.ts";
import type { Db, Sources } from "./database.ts";
import { deliveryStore } from "./deliveries.ts";
import { deliveryLogStore } from "./delivery-log.ts";
import { deploymentStore } from "./deployments.ts";
import { environmentEventStore } from "./environment-events.ts";
import { environmentListStore } from "./environment-lists.ts";
import { environmentStore } from "./environments.ts";
import { evidencePlaceStore } from "./evidence-place.ts";
import { evaluationStore } from "./evaluation.ts";
import { explanationStore } from "./explanations.ts";
import { factStore } from "./facts.ts";
import { figuresStore } from "./figures.ts";
import { flowStore } from "./flows.ts";
import { identityStore } from "./identities.ts";
import { inboundWebhookStore } from "./inbound-webhooks.ts";
import { jobStore } from "./jobs.ts";
import { logicalSnapshotStore } from "./logical-snapshots.ts";
import { membershipAuditLogStore } from "./membership-audit-log.ts";
import { keyWarningStore } from "./key-warnings.ts";
import { noticeStore } from "./notices.ts";
import { notificationTargetStore } from "./notification-targets.ts";
import { organizationStore } from "./organizations.ts";
import { passwordStore } from "./passwords.ts";
import { policyStore } from "./policies.ts";
import { presenceStore } from "./presence.ts";
import { recordingStore } from "./recording.ts";
import { reevaluationStore } from "./reevaluation.ts";
import { repoListStore } from "./repo-lists.ts";
import { repoStore } from "./repos.ts";
import { searchStore } from "./search.ts";
import { serviceAccountStore } from "./service-accounts.ts";
import { sessionStore } from "./sessions.ts";
import { snapshotStore } from "./snapshots.ts";
import { stalenessStore } from "./staleness.ts";
import { subjectStore } from "./subjects.ts";
import { templateStore } from "./templates.ts";
import { trailStore } from "./trails.ts";
import { triggerStore } from "./triggers.ts";
import { userStore } from "./users.ts";

export type Store = ReturnType<typeof openStore>;

export function openStore(db: Db, sources: Sources) {
  const jobs = jobStore(db, sources);
  const deliveries = deliveryStore(db, sources, jobs);
  const clock = clockStore(db, { jobs, deliveries });
  const triggers = triggerStore(db, jobs);
  const templates = templateStore(db, sources);
  const staleness = stalenessStore(db);
  const flows = flowStore(db, sources, staleness);
  const builds = buildStore(db);
  const artifacts = artifactStore(db, sources, builds);
  const attestations = attestationStore(db, sources, triggers);
  const policies = policyStore(db, sources);
  const environments = environmentStore(db, sources, staleness);
  const allowlists = allowlistStore(db, sources, { staleness, triggers });
  const snapshots = snapshotStore(db);
  const facts = factStore(db, { attestations, flows });
  const notificationTargets = notificationTargetStore(db);
  return {
    /** What the history of memberships calls the one who works on the command line: `operator (root)`. */
    operatorName: (): string => (sources.osUser ? `operator (${sources.osUser()})` : "operator"),
    organizations: organizationStore(db, sources),
    users: userStore(db, sources),
    serviceAccounts: serviceAccountStore(db, sources),
    passwords: passwordStore(db, sources),
    sessions: sessionStore(db, sources),
    identities: identityStore(db, sources),
    membershipAuditLog: membershipAuditLogStore(db),
    apiKeys: apiKeyStore(db, sources, jobs),
    repos: repoStore(db, sources),
    repoLists: repoListStore(db),
    builds,
    search: searchStore(db),
    templates,
    flows,
    trails: trailStore(db, sources, triggers),
    artifacts,
    attestations,
    attestationLists: attestationListStore(db),
    largeJson: largeJsonStore(db),
    attestationSearch: attestationSearchStore(db),
    evaluation: evaluationStore(db, { artifacts, attestations, templates, flows, staleness }),
    staleness,
    subjects: subjectStore({ artifacts, attestations, flows }),
    audit: auditStore(db, sources, clock),
    clock,
    customAttestationTypes: customAttestationTypeStore(db, sources),
    auditPackages: auditPackageStore(db),
    policies,
    controls: controlStore(db, sources),
    controlCoverage: controlCoverageStore(db),
    controlDecisions: controlDecisionStore(db),
    environments,
    environmentEvents: environmentEventStore(db),
    presence: presenceStore(db),
    environmentLists: environmentListStore(db),
    snapshots,
    explanations: explanationStore(db, { environments, flows, policies, snapshots }),
    allowlists,
    evidencePlace: evidencePlaceStore(db, sources),
    deliveries,
    figures: figuresStore(db),
    deliveryLog: deliveryLogStore(db),
    actions: actionStore(db, sources, notificationTargets),
    notificationTargets,
    notices: noticeStore(db, facts),
    keyWarnings: keyWarningStore(db, sources),
    triggers,
    deployments: deploymentStore(db),
    recording: recordingStore(db, sources, { environments, policies, allowlists, facts, triggers, clock, logical: logicalSnapshotStore(db, triggers, clock) }),
    jobs,
    inboundWebhooks: inboundWebhookStore(db, sources),
    reevaluation: reevaluationStore(db, { jobs, staleness }),
    /** Writes the version of the schema anew: a page of the log, and no change. */
    writeOnTrial: () => void db.pragma(`user_version = ${db.pragma("user_version", { simple: true })}`),
  };
}
