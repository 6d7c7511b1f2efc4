/** Settings of an organization, and actions. */
import type { Page } from "../../page/page.ts";
import { actionPage } from "./action.ts";
import { actionsPage } from "./actions.ts";
import { auditLogPage } from "./audit-log.ts";
import { clientsPage } from "./clients.ts";
import { generalPage } from "./general.ts";
import { membersPage } from "./members.ts";
import { retentionPage } from "./retention.ts";
import { serviceAccountPage } from "./service-account.ts";
import { serviceAccountsPage } from "./service-accounts.ts";
import { settingsPage } from "./settings.ts";
import { webhooksPage } from "./webhooks.ts";

export const settingsPages: readonly Page[] = [
  actionsPage,
  actionPage,
  settingsPage,
  generalPage,
  membersPage,
  serviceAccountsPage,
  serviceAccountPage,
  webhooksPage,
  retentionPage,
  clientsPage,
  auditLogPage,
];
