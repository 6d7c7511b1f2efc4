/** All stores over one connection. Each prepares its statements once. */
import { apiKeyStore } from "./api-keys.ts";
import { auditStore } from "./audit.ts";
import type { Db, Sources } from "./database.ts";
import { flowStore } from "./flows.ts";
import { organizationStore } from "./organizations.ts";
import { policyStore } from "./policies.ts";
import { serviceAccountStore } from "./service-accounts.ts";
import { templateStore } from "./templates.ts";
import { userStore } from "./users.ts";

export type Store = ReturnType<typeof openStore>;

export function openStore(db: Db, sources: Sources) {
  return {
    organizations: organizationStore(db, sources),
    users: userStore(db, sources),
    serviceAccounts: serviceAccountStore(db, sources),
    apiKeys: apiKeyStore(db, sources),
    templates: templateStore(db, sources),
    flows: flowStore(db, sources),
    audit: auditStore(db, sources),
    policies: policyStore(db, sources),
  };
}
