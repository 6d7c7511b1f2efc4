/** All stores over one connection. Each prepares its statements once. */
import { apiKeyStore } from "./api-keys.ts";
import { artifactStore } from "./artifacts.ts";
import { attestationListStore } from "./attestation-lists.ts";
import { attestationStore } from "./attestations.ts";
import { auditStore } from "./audit.ts";
import type { Db, Sources } from "./database.ts";
import { environmentEventStore } from "./environment-events.ts";
import { environmentStore } from "./environments.ts";
import { evaluationStore } from "./evaluation.ts";
import { flowStore } from "./flows.ts";
import { organizationStore } from "./organizations.ts";
import { policyStore } from "./policies.ts";
import { repoStore } from "./repos.ts";
import { serviceAccountStore } from "./service-accounts.ts";
import { snapshotStore } from "./snapshots.ts";
import { subjectStore } from "./subjects.ts";
import { templateStore } from "./templates.ts";
import { trailStore } from "./trails.ts";
import { userStore } from "./users.ts";

export type Store = ReturnType<typeof openStore>;

export function openStore(db: Db, sources: Sources) {
  const templates = templateStore(db, sources);
  const flows = flowStore(db, sources);
  const artifacts = artifactStore(db, sources);
  const attestations = attestationStore(db, sources);
  return {
    organizations: organizationStore(db, sources),
    users: userStore(db, sources),
    serviceAccounts: serviceAccountStore(db, sources),
    apiKeys: apiKeyStore(db, sources),
    repos: repoStore(db, sources),
    templates,
    flows,
    trails: trailStore(db, sources),
    artifacts,
    attestations,
    attestationLists: attestationListStore(db),
    evaluation: evaluationStore(db, { artifacts, attestations, templates, flows }),
    subjects: subjectStore({ artifacts, attestations, flows }),
    audit: auditStore(db, sources),
    policies: policyStore(db, sources),
    environments: environmentStore(db, sources),
    environmentEvents: environmentEventStore(db),
    snapshots: snapshotStore(db),
  };
}
