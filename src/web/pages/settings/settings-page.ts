/** What all pages below `/{org}/settings` share: the head, and the navigation between them. */
import { listAuditLogEntries } from "../../../api/accounts/audit-log.ts";
import { listMembers } from "../../../api/accounts/members.ts";
import { getOrganization } from "../../../api/accounts/organizations.ts";
import { listRetentionRules } from "../../../api/accounts/retention.ts";
import { listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import { listUnknownInputs } from "../../../api/accounts/unknown-inputs.ts";
import { getNotificationConfig } from "../../../api/notifications/notification-config.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { pageHead } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Value } from "../../html.ts";
import type { Content, Crumb, Visit } from "../../page/page.ts";

type Restricted = Parameters<Visit["may"]>[0];
type Entry = { key: string; text: string; icon: IconName; operation: Restricted };

/** An entry is shown to those who may read what its page is about. */
const ENTRIES = [
  { key: "general", text: "Organization", icon: "organization", operation: getOrganization },
  { key: "members", text: "Members", icon: "people", operation: listMembers },
  { key: "service-accounts", text: "Service accounts", icon: "hubot", operation: listServiceAccounts },
  { key: "webhooks", text: "Webhooks", icon: "webhook", operation: getNotificationConfig },
  { key: "retention", text: "Retention", icon: "history", operation: listRetentionRules },
  { key: "clients", text: "Clients", icon: "code", operation: listUnknownInputs },
  { key: "audit-log", text: "Audit log", icon: "log", operation: listAuditLogEntries },
] as const satisfies readonly Entry[];
type SettingsKey = (typeof ENTRIES)[number]["key"];

/** A page of the settings. `title` is that of an object below the section; without it the section is the page. */
export function settingsContent(
  { to, may }: Visit,
  section: SettingsKey,
  { title, crumb, state, main }: { title?: string; crumb?: string; state?: Value; main: Value },
): Content {
  const own = ENTRIES.find(({ key }) => key === section);
  const text = own?.text ?? "Settings";
  const links = ENTRIES.filter(({ operation }) => may(operation)).map(
    (entry) =>
      html`<a href="${to.settings(entry.key)}"${entry.key === section && html` aria-current="page"`}>${icon(
        entry.icon,
      )}${entry.text}</a>`,
  );
  const crumbs: Crumb[] = [{ text: "Settings", href: to.settings("general") }];
  if (title !== undefined) crumbs.push({ text, href: to.settings(section) });
  return {
    title: title ?? text,
    section: "settings",
    crumbs,
    ...(crumb === undefined ? {} : { crumb }),
    main: html`${pageHead({ title: title === undefined ? "Settings" : html`<bdi>${title}</bdi>`, state })}
<div class="cols-settings"><nav class="nav" aria-label="Settings">${links}</nav><div class="stack">${main}</div></div>`,
  };
}
