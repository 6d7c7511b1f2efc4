/** Looks up the users, organizations and service accounts that a command line names. */
import { truncate } from "../domain/text/excerpt.ts";
import type { StoreReader } from "../store/reader.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { ServiceAccountRow } from "../store/accounts/service-accounts.ts";
import type { UserRow } from "../store/accounts/users.ts";
import { isAccountName } from "./apply/apply-file.ts";
import type { Args } from "./args.ts";
import { CommandError } from "./framework.ts";

/**
 * Returns a user by login name, or by e-mail address regardless of case; login names contain no `@`.
 * @throws CommandError when there is none
 */
export function requireUser(store: StoreReader, word: string): UserRow {
  const row = word.includes("@") ? store.users.findByEmail(word) : store.users.find(word);
  if (!row) throw new CommandError(`there is no user ${JSON.stringify(word.slice(0, 100))}; assay user list lists all`);
  return row;
}

/** The problem of a command line without the organization that it needs. */
export const findOrgProblems = ({ texts }: Args): string[] =>
  (texts.get("org")?.[0] ?? "") === "" ? ["--org: give the name of an organization"] : [];

/** @throws CommandError when there is none */
export function requireOrganization(store: StoreReader, name: string): OrganizationRow {
  const row = store.organizations.find(name);
  if (!row) throw new CommandError(`there is no organization ${JSON.stringify(name.slice(0, 100))}`);
  return row;
}

/** @throws CommandError when there is none; it names the command that creates one */
export function requireServiceAccount(
  store: StoreReader,
  organization: OrganizationRow,
  name: string,
): ServiceAccountRow {
  const row = store.serviceAccounts.find(organization.id, name);
  if (row) return row;
  const beginning = truncate(name, 100);
  const account = isAccountName(name) ? beginning : "NAME";
  throw new CommandError(
    `Service account not found: ${organization.name} has no ${JSON.stringify(beginning)}; ` +
      `assay service-account create ${account} --org ${organization.name} creates one`,
  );
}

/** Formats epoch seconds as ISO 8601 in UTC, to the second. */
export const formatTimestamp = (seconds: number): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
