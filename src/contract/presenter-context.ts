/** What presenters need of an operation's context. */
import type { AnswerBounds } from "../http/answers/large-answers.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { StoreReader } from "../store/reader.ts";
import type { Urls } from "./urls.ts";

export type PresenterContext = {
  readonly store: StoreReader;
  readonly urls: Urls;
  /** The organization whose records are presented. */
  readonly organization: OrganizationRow;
  /** Of the answer that is presented; absent where something else is made of it, such as an audit package. */
  readonly answerBounds?: AnswerBounds;
};
