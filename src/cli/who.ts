/** Whom and what the words of a command line name. */
import type { Store } from "../store/index.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import type { UserRow } from "../store/users.ts";
import { commandFailure } from "./frame.ts";

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

/** A time as people read it, to the second. */
export const shownTime = (seconds: number): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
