import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { Store } from "../store/index.ts";
import type { Urls } from "./urls.ts";

/** What presenting records needs: the rest of an operation's context is none of a presenter's business. */
export type PresenterContext = {
  readonly store: Store;
  readonly urls: Urls;
  /** The organization whose records are presented. */
  readonly organization: OrganizationRow;
};
