/** What a page shows instead of its content when it is refused: what happened, and what to do next. */
import { decodePathPart } from "../../domain/network/urls.ts";
import { searchField } from "../components/search-field.ts";
import { empty, linkButton } from "../components/layout.ts";
import type { IconName } from "../components/icon.ts";
import type { AppError, ErrorCode } from "../../errors.ts";
import { html } from "../html.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import { inWords, isMissingSnapshot } from "./field-words.ts";
import type { Content, Visit } from "./page.ts";

type Place = Pick<Visit, "org" | "to" | "path" | "role">;
type Words = { title: string; text(error: AppError, visit: Place): string; icon: IconName };

const sentence = ({ message }: AppError): string => inWords(message);

/** Searching for a name finds no snapshot. */
const whatIsMissing = (error: AppError): string =>
  isMissingSnapshot(error.message)
    ? sentence(error)
    : `${sentence(error)} It may have been renamed or archived: search for a part of its name.`;

const WORDS: Readonly<Partial<Record<ErrorCode, Words>>> = {
  forbidden: {
    title: "You have no access to this",
    text: (_error, { org, role }) =>
      role === null
        ? "The organization does not exist, or your role in it does not permit this. Ask an administrator of the " +
          "organization, or switch to another one on your account page."
        : `Your role in ${org} is ${role}, which does not permit this. Ask an administrator of ${org}.`,
    icon: "lock",
  },
  not_found: {
    title: "This does not exist",
    text: whatIsMissing,
    icon: "search",
  },
  invalid: {
    title: "This address is not valid",
    text: (error) =>
      error.fields === null ? sentence(error) : "A part of it has another form than this page expects:",
    icon: "alert",
  },
  conflict: { title: "This was changed meanwhile", text: sentence, icon: "sync" },
  gone: { title: "This was removed", text: sentence, icon: "archive" },
  too_large: { title: "This is too large", text: sentence, icon: "alert" },
  too_many: { title: "Too many requests", text: sentence, icon: "clock" },
  unavailable: {
    title: "The server is busy",
    text: (error) => `${sentence(error)} Nothing was changed. Reload this page in a few seconds.`,
    icon: "clock",
  },
  no_space: {
    title: "The server is in read-only mode",
    text: (error) => `${sentence(error)} Everything that is stored stays readable.`,
    icon: "lock",
  },
};

/** The content of a page that was refused. */
export function errorContent(visit: Place, error: AppError): Content {
  const words = WORDS[error.code] ?? { title: "Something went wrong", text: sentence, icon: "alert" };
  const details = Object.entries(error.fields ?? {}).map(
    ([name, text]) => html`<li>${name.replaceAll("_", " ")}: ${inWords(text)}</li>`,
  );
  const home =
    visit.org === "" || (error.code === "forbidden" && visit.role === null)
      ? linkButton(visit.to.account(), "Your account", { icon: "person" })
      : linkButton(visit.to.organization(), "Overview", { icon: "home" });
  const search = error.code === "not_found" && visit.org !== "" && searchField(visit.to, lastPartOf(visit.path));
  return {
    title: words.title,
    section: null,
    crumbs: [],
    status: STATUS_BY_ERROR[error.code],
    main: html`<section class="card"><h1 class="vh">${words.title}</h1>${empty({
      icon: words.icon,
      title: words.title,
      text: html`${words.text(error, visit)}${details.length > 0 && html`<ul class="plain-list">${details}</ul>`}`,
      actions: [search, home],
    })}</section>`,
  };
}

/** The last part of a path, decoded: most likely the name of what was looked for. */
const lastPartOf = (path: string): string => decodePathPart(path.split("/").findLast((text) => text !== "") ?? "");
