/** What a change of memberships must know beyond the membership itself. */
import type { Store } from "../store/index.ts";

/** Lists the names of an organization's service accounts that the user created and that have live keys. */
export const listLiveAccounts = (store: Store, organization: { id: number }, user: { public_id: string }): string[] =>
  store.serviceAccounts
    .list(organization.id)
    .filter((account) => account.creating_user_id === user.public_id && store.apiKeys.listActive(account.id).length > 0)
    .map(({ name }) => name);

/**
 * Whether each login decides the user's role in the organization anew: groups of the login provider give roles there,
 * and the user signs in with the provider. Another role would last until the next login only.
 * @param mapped names of the organizations in which groups give roles (oidc-roles)
 */
export const isRoleMapped = (
  store: Store,
  mapped: ReadonlySet<string>,
  { organization, userId }: { organization: string; userId: number },
): boolean =>
  mapped.has(organization) && store.identities.listByUser(userId).some(({ blocked_at }) => blocked_at === null);
