/** What a page shows as of a moment in the past, which `?at=` in its address asks for. */
import { AppError } from "../../errors.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import { linkButton } from "../components/layout.ts";
import { NOT_KEPT, notKept, presentNote } from "./past-notes.ts";
import { html } from "../html.ts";
import { errorContent } from "./error-pages.ts";
import { inWords } from "./field-words.ts";
import { askedMoment, toMoment } from "./moment.ts";
import type { Content, Page, RawAnswer, Visit } from "./page.ts";
import { momentForm } from "./past-frame.ts";

type Shown = { visit: Visit; content: Content | RawAnswer };

/** @param contentOf what a page shows, or its refusal in words */
export async function showThen(
  page: Page,
  visit: Visit,
  contentOf: (page: Page, visit: Visit) => Promise<Content | RawAnswer>,
): Promise<Shown> {
  let then: Visit;
  try {
    then = await toMoment(visit);
  } catch (error) {
    if (!(error instanceof AppError) || error.code === "internal") throw error;
    return { visit, content: refusedMoment(visit, error) };
  }
  if (page.past === undefined) return { visit: then, content: notKeptContent(then) };
  const content = await contentOf(page, then);
  if (page.past === "then" || "raw" in content) return { visit: then, content };
  return {
    visit: then,
    content: { ...content, main: html`${presentNote(content.presentNote ?? PRESENT)}${content.main}` },
  };
}

const PRESENT = "This page shows the present. What it leads to is as of that moment.";

const notKeptContent = (visit: Visit): Content => ({
  title: NOT_KEPT,
  section: null,
  crumbs: [],
  main: html`<h1 class="vh">${NOT_KEPT}</h1>${notKept(visit, "What this page shows")}`,
});

/** What the person may not see stays hidden; a text that names no moment is shown with what is wrong with it. */
function refusedMoment(visit: Visit, error: AppError): Content {
  const problem = error.fields?.["at"];
  if (problem === undefined) return errorContent(visit, error);
  const title = "Which moment?";
  const form = momentForm(visit, { id: "moment-asked", value: askedMoment(visit) ?? "", problem: inWords(problem) });
  const back = linkButton(visit.here({ at: null }), "Show the present", { icon: "clock" });
  return {
    title,
    section: null,
    crumbs: [],
    status: STATUS_BY_ERROR[error.code],
    main: html`<section class="card wrong-moment"><div class="card-h"><h1>${title}</h1></div><div
class="card-b">${form}</div><div class="card-f">${back}</div></section>`,
  };
}
