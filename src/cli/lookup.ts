/** Whom and what the words of a command line name. */
import { truncate } from "../domain/text/excerpt.ts";
import type { Store } from "../store/index.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { ServiceAccountRow } from "../store/accounts/service-accounts.ts";
import type { UserRow } from "../store/accounts/users.ts";
import { isAccountName } from "./apply/apply-file.ts";
import { commandFailure } from "./framework.ts";

/** A user by login name, or by e-mail address in whatever case; login names hold no `@`. @throws a command failure. */
export function requireUser(store: Store, word: string): UserRow {
  const row = word.includes("@") ? store.users.findByEmail(word) : store.users.find(word);
  if (!row) throw commandFailure(`there is no user ${JSON.stringify(word.slice(0, 100))}`);
  return row;
}

/** @throws a command failure. */
export function requireOrganization(store: Store, name: string): OrganizationRow {
  const row = store.organizations.find(name);
  if (!row) throw commandFailure(`there is no organization ${JSON.stringify(name.slice(0, 100))}`);
  return row;
}

/** @throws a command failure that names the command that makes one. */
export function requireServiceAccount(store: Store, organization: OrganizationRow, name: string): ServiceAccountRow {
  const row = store.serviceAccounts.find(organization.id, name);
  if (row) return row;
  const shown = truncate(name, 100);
  const makes = `assay service-account create ${isAccountName(name) ? shown : "NAME"} --org ${organization.name} makes one`;
  throw commandFailure(`Service account not found: ${organization.name} has no ${JSON.stringify(shown)}; ${makes}`);
}

/** A time as people read it, to the second. */
export const shownTime = (seconds: number): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
