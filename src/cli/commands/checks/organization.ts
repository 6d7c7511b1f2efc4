/** The options and the data of checks that compare a file with the names of an organization. */
import type { OrganizationNames } from "../../../domain/organization-names.ts";
import type { Diagnostic } from "../../../domain/policy/diagnostics.ts";
import type { OrganizationRow } from "../../../store/accounts/organizations.ts";
import type { StoreReader } from "../../../store/reader.ts";
import { systemSources } from "../../../clock.ts";
import { openReader } from "../../../store/reader.ts";
import type { Args, CommandOption } from "../../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../../command-config.ts";
import { selectOrganization } from "../explain.ts";
import { withDataReadOnly } from "../../data-directory.ts";
import type { Io } from "../../framework.ts";

/** The options of a check that compares a file with an organization. */
export const ORGANIZATION_OPTIONS: Readonly<Record<string, CommandOption>> = {
  org: { kind: "text", placeholder: "NAME", description: "Organization whose names the file is compared with" },
  ...DATA_OPTIONS,
};

/** The problem of --data without --org: an organization has to be chosen, for most files have names of one. */
export const findMissingOrganization = ({ texts }: Args): readonly string[] =>
  texts.has("data") && !texts.has("org")
    ? ["--org is missing: give the organization whose names the file is compared with"]
    : [];

/**
 * Reads from the organization of --org, while a server may run; null without that option: then no data is needed.
 * @throws CommandError when there is no such organization or data directory
 */
export async function readOrganization<T>(
  args: Args,
  io: Io,
  read: (store: StoreReader, organization: OrganizationRow) => T,
): Promise<T | null> {
  const name = args.texts.get("org")?.[0];
  if (name === undefined) return null;
  const directory = await resolveDataDirectory(args, io);
  return withDataReadOnly(directory, async (db) =>
    db.transaction(() => {
      const store = openReader(db, systemSources);
      return read(store, selectOrganization(store, name, []));
    })(),
  );
}

/**
 * Compares a file with an organization. The operator waits as long as it takes; a server does not
 * (jobs/policy-previews.ts).
 */
export const compareWith = (
  store: StoreReader,
  organization: OrganizationRow,
  find: (known: OrganizationNames) => Diagnostic[],
): Diagnostic[] => store.organizationNames.compare(organization, { isOver: () => false, find });
