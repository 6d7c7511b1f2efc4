/** What presenters need of an operation's context. */
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { Store } from "../store/index.ts";
import type { Urls } from "./urls.ts";

export type PresenterContext = {
  readonly store: Store;
  readonly urls: Urls;
  /** The organization whose records are presented. */
  readonly organization: OrganizationRow;
  /** Bytes of the answer that may be made in this thread; absent: all. */
  readonly inlineBytes?: number;
};
