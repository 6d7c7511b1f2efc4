/**
 * Opens all stores over one connection. Each prepares its statements once.
 *
 * Left out: a container that finds the parts of a store by itself. Which area stands on which is read here.
 */
import { actionStore } from "./notifications/actions.ts";
import { allowlistEndStore } from "./environments/allowlist-ends.ts";
import { allowlistStore } from "./environments/allowlists.ts";
import { apiKeyStore } from "./accounts/api-keys.ts";
import { artifactListStore } from "./flows/artifact-lists.ts";
import { artifactStore } from "./flows/artifacts.ts";
import { attestationListStore } from "./attestations/attestation-lists.ts";
import { attestationSearchStore } from "./attestations/attestation-search.ts";
import { attestationStore } from "./attestations/attestations.ts";
import type { AttestationChanges } from "./attestations/attestations.ts";
import { auditLogStore } from "./db/audit-log.ts";
import { auditPackageStore } from "./environments/audit-packages.ts";
import { binderRecordStore } from "./environments/history/binder-records.ts";
import { binderStore } from "./environments/history/binders.ts";
import { largeJsonStore } from "./db/large-json.ts";
import { buildStore } from "./flows/builds.ts";
import { builtCommitStore } from "./flows/built-commits.ts";
import { clockStore } from "./db/clock.ts";
import { controlCoverageStore } from "./environments/control-coverage.ts";
import { controlDecisionStore } from "./policies/control-decisions.ts";
import { controlStore } from "./policies/controls.ts";
import { customAttestationTypeStore } from "./attestations/custom-attestation-types.ts";
import { outboxStore } from "./notifications/outbox.ts";
import { dailyChangesStore } from "./notifications/daily-changes.ts";
import { deliveryLogStore } from "./notifications/delivery-log.ts";
import { deploymentStore } from "./environments/deployments.ts";
import type { EnvironmentChanges } from "./environments/changes.ts";
import { environmentEventStore } from "./environments/environment-events.ts";
import { environmentListStore } from "./environments/environment-lists.ts";
import { environmentStore } from "./environments/environments.ts";
import { evidenceLocationStore } from "./attestations/evidence-location.ts";
import { trailExplanationStore } from "./flows/trail-explanations.ts";
import { trailEvaluationStore } from "./flows/trail-evaluation.ts";
import { explainedAttestationStore } from "./attestations/explained-attestations.ts";
import { explainedVersionStore } from "./policies/explained-versions.ts";
import { explanationStore } from "./environments/explanations.ts";
import { complianceFactStore } from "./environments/compliance-facts.ts";
import { metricsStore } from "./notifications/metrics-queries.ts";
import type { FlowChanges } from "./flows/changes.ts";
import { flowStore } from "./flows/flows.ts";
import { identityStore } from "./accounts/oidc-identities.ts";
import { inboundWebhookStore } from "./notifications/inbound-webhooks.ts";
import { jobStore } from "./db/jobs.ts";
import { logicalSnapshotStore } from "./environments/logical-snapshots.ts";
import { membershipAuditLogStore } from "./accounts/membership-audit-log.ts";
import { keyExpiryStore } from "./accounts/key-expiry.ts";
import { eventFactStore } from "./notifications/event-facts.ts";
import { nameSearchStore } from "./environments/name-search.ts";
import { notificationTargetStore } from "./notifications/notification-targets.ts";
import { organizationNameStore } from "./policies/organization-names.ts";
import { organizationStore } from "./accounts/organizations.ts";
import { overviewStore } from "./environments/overview.ts";
import { pastArtifactStore } from "./environments/history/past-artifacts.ts";
import { pastStore } from "./environments/history/past.ts";
import { passwordStore } from "./accounts/passwords.ts";
import { periodChangeStore } from "./environments/history/period-changes.ts";
import { changePreviewStore } from "./environments/change-previews.ts";
import { startPreviewStore } from "./environments/start-previews.ts";
import { policyStore } from "./policies/policies.ts";
import { artifactLocationStore } from "./environments/artifact-locations.ts";
import { snapshotRecorderStore } from "./environments/snapshot-recorder.ts";
import { reevaluationQueue } from "./environments/reevaluation-queue.ts";
import { regoDocumentStore } from "./policies/rego-documents.ts";
import { regoEvaluationStore } from "./policies/rego-evaluations.ts";
import { regoPolicyStore } from "./policies/rego-policies.ts";
import { repoListStore } from "./flows/repo-lists.ts";
import { repoStore } from "./flows/repos.ts";
import { retentionRuleStore } from "./retention/retention-rules.ts";
import { sameNameStore } from "./environments/same-name.ts";
import { searchStore } from "./flows/search.ts";
import { serviceAccountStore } from "./accounts/service-accounts.ts";
import { sessionStore } from "./accounts/sessions.ts";
import { smallEvidenceStore } from "./attestations/small-evidence.ts";
import { snapshotPageStore } from "./environments/snapshot-pages.ts";
import { snapshotStore } from "./environments/snapshots.ts";
import { staleArtifactStore } from "./environments/stale-artifacts.ts";
import { policySubjectStore } from "./flows/policy-subjects.ts";
import { templateStore } from "./flows/templates.ts";
import { trailStore } from "./flows/trails.ts";
import { templatePreviewStore } from "./flows/template-previews.ts";
import { verdictCauseStore } from "./environments/verdict-causes.ts";
import { triggerStore } from "./notifications/triggers.ts";
import { unknownInputStore } from "./accounts/unknown-inputs.ts";
import { userStore } from "./accounts/users.ts";
import { viewStore } from "./accounts/views.ts";
import type { Db, SchemaSources } from "./db/types.ts";

export type Store = ReturnType<typeof openStore>;

export function openStore(db: Db, sources: SchemaSources) {
  const jobs = jobStore(db, sources);
  const deliveries = outboxStore(db, sources, jobs);
  const clock = clockStore(db, [deliveries, jobs]);
  const triggers = triggerStore(db, jobs);
  const dailyChanges = dailyChangesStore(db, sources, jobs);
  const staleness = staleArtifactStore(db);
  /** What a change in an area causes in later ones. */
  const changes: FlowChanges & EnvironmentChanges & AttestationChanges = {
    onAttested: triggers.raiseAttested,
    onTrailStarted: triggers.raiseTrailStarted,
    onTrailChanged: staleness.markTrail,
    onArtifactChanged: staleness.markArtifact,
    onFlowChanged: staleness.markFlow,
    onSnapshotMade: triggers.raiseSnapshotMade,
    onArtifactAllowed: triggers.raiseArtifactAllowed,
  };
  const templates = templateStore(db, sources);
  const flows = flowStore(db, sources, changes);
  const builds = buildStore(db);
  const artifacts = artifactStore(db, sources, builds);
  const attestations = attestationStore(db, sources, changes);
  const attestationSearch = attestationSearchStore(db);
  const policies = policyStore(db, sources);
  const environments = environmentStore(db, sources, staleness);
  const allowlistEnds = allowlistEndStore(db, jobs);
  const allowlists = allowlistStore(db, sources, { ends: allowlistEnds, staleness, ...changes });
  const trailEvaluation = trailEvaluationStore(db, { artifacts, attestations, templates, flows, ...changes });
  const snapshots = snapshotStore(db);
  const records = explainedAttestationStore(db);
  const versions = explainedVersionStore(db, policies);
  const sameNames = sameNameStore(db);
  const facts = complianceFactStore(db, { attestations, flows });
  const trails = trailStore(db, sources, changes);
  const verdictCauses = verdictCauseStore({ records, policies, flows, trails });
  const notificationTargets = notificationTargetStore(db);
  return {
    /** The name under which the membership history records the command line: `operator (root)`. */
    operatorName: (): string => (sources.osUser ? `operator (${sources.osUser()})` : "operator"),
    organizations: organizationStore(db, sources),
    organizationNames: organizationNameStore(db, { attestationSearch, policies, templates }),
    unknownInputs: unknownInputStore(db),
    users: userStore(db, sources),
    views: viewStore(db, sources),
    serviceAccounts: serviceAccountStore(db, sources),
    passwords: passwordStore(db, sources),
    sessions: sessionStore(db, sources),
    identities: identityStore(db, sources),
    membershipAuditLog: membershipAuditLogStore(db),
    apiKeys: apiKeyStore(db, sources, jobs),
    repos: repoStore(db, sources),
    repoLists: repoListStore(db),
    builds,
    builtCommits: builtCommitStore(db),
    search: searchStore(db),
    nameSearch: nameSearchStore(db),
    templates,
    flows,
    trails,
    artifacts,
    artifactLists: artifactListStore(db),
    attestations,
    attestationLists: attestationListStore(db),
    largeJson: largeJsonStore(db),
    attestationSearch,
    trailEvaluation,
    trailExplanations: trailExplanationStore({ evaluation: trailEvaluation, records }),
    staleArtifacts: staleness,
    policySubjects: policySubjectStore({ artifacts, attestations, flows }),
    auditLog: auditLogStore(db, sources, clock),
    clock,
    customAttestationTypes: customAttestationTypeStore(db, sources),
    auditPackages: auditPackageStore(db),
    policies,
    startPreviews: startPreviewStore(db, { allowlists, facts, flows, policies }),
    changePreviews: changePreviewStore(db, {
      allowlists,
      allowlistEnds,
      environments,
      facts,
      flows,
      policies,
      snapshots,
      trailEvaluation,
    }),
    templatePreviews: templatePreviewStore(db, {
      explain: verdictCauses.explainComputed,
      evaluation: trailEvaluation,
      flows,
      templates,
      trails,
    }),
    regoPolicies: regoPolicyStore(db, sources),
    regoEvaluations: regoEvaluationStore(db, sources),
    regoDocuments: regoDocumentStore(db),
    controls: controlStore(db, sources),
    controlCoverage: controlCoverageStore(db),
    controlDecisions: controlDecisionStore(db),
    environments,
    environmentEvents: environmentEventStore(db),
    artifactLocations: artifactLocationStore(db),
    environmentLists: environmentListStore(db),
    overview: overviewStore(db),
    binders: binderStore(db),
    binderRecords: binderRecordStore(db),
    past: pastStore(db),
    pastArtifacts: pastArtifactStore(db),
    periodChanges: periodChangeStore(db),
    snapshotPages: snapshotPageStore(db),
    verdictCauses,
    snapshots,
    explanations: explanationStore(db, { environments, flows, policies, versions, records, snapshots, sameNames }),
    sameNames,
    allowlists,
    allowlistEnds,
    smallEvidence: smallEvidenceStore(db),
    evidenceLocation: evidenceLocationStore(db, sources),
    outbox: deliveries,
    metrics: metricsStore(db),
    deliveryLog: deliveryLogStore(db),
    actions: actionStore(db, sources, { targets: notificationTargets, dailyChanges }),
    dailyChanges,
    notificationTargets,
    eventFacts: eventFactStore(db, facts),
    keyExpiry: keyExpiryStore(db, sources),
    triggers,
    deployments: deploymentStore(db),
    snapshotRecorder: snapshotRecorderStore(db, sources, {
      environments,
      policies,
      allowlists,
      allowlistEnds,
      facts,
      clock,
      onSnapshotMade: changes.onSnapshotMade,
      logical: logicalSnapshotStore(db, { clock, onSnapshotMade: changes.onSnapshotMade }),
    }),
    jobs,
    inboundWebhooks: inboundWebhookStore(db, sources),
    retentionRules: retentionRuleStore(db, sources),
    reevaluationQueue: reevaluationQueue(db, { jobs, staleness }),
    /** Writes the unchanged schema version again: one page of the log, and no change. Probes whether writing works. */
    probeWrite: () => void db.pragma(`user_version = ${db.pragma("user_version", { simple: true })}`),
  };
}
