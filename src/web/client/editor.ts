/**
 * The editor for policies and templates; loaded by their pages only. It takes the place of a text area, whose form goes
 * on working: the text area always has the text of the editor.
 */
import { checkOnPause } from "./editor-check.ts";
import { createEditor } from "./editor-view.ts";

/** Leaving the page asks, while a draft is not stored. */
let hasDraft = false;

function enhance(form: HTMLFormElement): void {
  const area = form.querySelector<HTMLTextAreaElement>("[data-editor-text]");
  if (!area || form.dataset["editor"] === "on") return;
  form.dataset["editor"] = "on";
  hasDraft = false;
  const check = checkOnPause(form, (problems) => view.showProblems(problems));
  const view = createEditor(form, area, () => {
    hasDraft = true;
    check.soon();
  });
  check.attach(view);
  form.addEventListener("submit", () => {
    hasDraft = false;
  });
}

const enhanceAll = (): void => {
  for (const form of document.querySelectorAll<HTMLFormElement>("form[data-editor]")) enhance(form);
};

enhanceAll();
document.addEventListener("htmx:after:swap", enhanceAll);
window.addEventListener("beforeunload", (event) => {
  if (hasDraft && document.querySelector("form[data-editor]")) event.preventDefault();
});
