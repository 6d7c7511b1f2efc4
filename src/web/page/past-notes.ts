/** What pages say about what they cannot show as of a moment in the past. */
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import type { Content, Visit } from "./page.ts";
import { icon } from "../components/icon.ts";
import { empty, linkButton } from "../components/layout.ts";

/** What stands above what is stored only as it is now. */
export const NOT_KEPT = "No history";

/** In place of what is not kept. @param what subject of a sentence in the singular, such as "The log" */
export const notKept = ({ here, to, org }: Pick<Visit, "here" | "to" | "org">, what: string): Html =>
  html`<section class="card">${empty({
    icon: "history",
    title: NOT_KEPT,
    text: `${what} is stored only as it is now. The past has the snapshots of environments with their verdicts, where
artifacts ran, the versions of policies, and why a verdict was as it was.`,
    actions: [
      linkButton(here({ at: null }), "Show it as of now", { icon: "clock" }),
      org !== "" && linkButton(to.organization(), "Overview as of then", { icon: "home" }),
    ],
  })}</section>`;

/** Above what shows the present all the same. */
export const presentNote = (text: string): Html =>
  html`<p class="notice" role="note">${icon("history")}<span>${text}</span></p>`;

/** The content of a page about something that did not exist, or had ended, at the moment that is shown. */
export const notThen = (
  { here }: Pick<Visit, "here">,
  { title, text, ...place }: { title: string; text: string } & Pick<Content, "section" | "crumbs" | "timePath">,
): Content => ({
  ...place,
  title,
  main: html`<section class="card"><h1 class="vh">${title}</h1>${empty({
    icon: "history",
    title: "Not there at that moment",
    text,
    actions: linkButton(here({ at: null }), "Show it as of now", { icon: "clock" }),
  })}</section>`,
});
