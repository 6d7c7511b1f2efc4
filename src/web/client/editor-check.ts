/**
 * Checks a draft while a person types: submits its form as the button "Preview" does, which stores nothing, and takes
 * the result and the errors from the answered page.
 */
import type { EditorView, Problem } from "./editor-view.ts";
import { addSymbols } from "./symbols.ts";

/** Milliseconds without a keystroke before the server is asked. */
const PAUSE_MS = 500;

type View = Pick<EditorView, "goTo" | "focus">;

export function checkOnPause(form: HTMLFormElement, showProblems: (problems: readonly Problem[]) => void) {
  const state = form.querySelector<HTMLElement>("[data-editor-state]");
  const marks = form.querySelector<HTMLElement>("[data-editor-marks]");
  const status = document.createElement("p");
  status.className = "vh";
  status.setAttribute("role", "status");
  form.append(status);
  let view: View | null = null;
  let errors: readonly Problem[] = [];
  let timer = 0;
  let asked: AbortController | null = null;
  /** When the shown result was computed, if it is of a draft without errors. */
  let validSince: Date | null = null;

  function show(found: readonly Problem[]): void {
    const warnings = found.filter(({ kind }) => kind === "warning");
    errors = found.filter(({ kind }) => kind === "error");
    showProblems(found);
    state?.replaceChildren();
    if (errors.length > 0) state?.append(sign("error", countText("error", errors.length)));
    if (warnings.length > 0) state?.append(sign("warning", countText("warning", warnings.length)));
    marks?.replaceChildren();
    for (const problem of [...errors, ...warnings].slice(0, MAX_MARKS)) marks?.append(mark(problem));
    for (const button of saveButtons(form)) {
      if (errors.length === 0) button.removeAttribute("aria-disabled");
      else button.setAttribute("aria-disabled", "true");
      button.title = errors.length === 0 ? "" : `${countText("error", errors.length)}: fix them first`;
    }
    const [first] = [...errors, ...warnings];
    const counts = [
      errors.length === 0 ? "No errors" : countText("error", errors.length),
      ...(warnings.length === 0 ? [] : [countText("warning", warnings.length)]),
    ].join(", ");
    status.textContent = first ? `${counts}. Line ${first.line}, column ${first.column}: ${first.message}` : counts;
  }

  /** An icon of the page with words. */
  function sign(kind: Problem["kind"], words: string): Node {
    const template = form.querySelector<HTMLTemplateElement>(`template[data-editor-${kind}]`);
    const copy = document.importNode(template?.content ?? document.createDocumentFragment(), DEEP);
    copy.firstElementChild?.append(words);
    return copy;
  }

  function mark(problem: Problem): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `${problem.kind === "error" ? "bad" : "wait"} num link`;
    button.textContent = `${problem.line}:${problem.column}`;
    const name = problem.kind === "error" ? "error" : "warning";
    const { line, column } = problem;
    button.setAttribute("aria-label", `${line}:${column}, ${name} in line ${line}, column ${column}`);
    button.addEventListener("click", () => view?.goTo(problem));
    return button;
  }

  async function run(): Promise<void> {
    clearTimeout(timer);
    asked?.abort();
    const own = new AbortController();
    asked = own;
    const sent = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (typeof value === "string") sent.append(name, value);
    sent.set("do", "preview");
    const result = document.getElementById("editor-result");
    result?.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(form.action, {
        method: "POST",
        headers: { Accept: "text/html" },
        body: sent,
        signal: own.signal,
      });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (asked !== own) return;
      take(page);
    } catch {
      if (!own.signal.aborted) note("The server did not answer. The draft is not checked and not stored.");
    } finally {
      if (asked === own) document.getElementById("editor-result")?.removeAttribute("aria-busy");
    }
  }

  /** Shows the result in a page; what computed it stays while the draft has errors. */
  function take(page: Document): void {
    const fresh = page.getElementById("editor-result");
    const isChecked = page.querySelector("form[data-editor]") !== null && fresh !== null;
    const refusal = page.querySelector("form[data-editor] :is(.problem, .field-error)")?.textContent;
    if (!isChecked) note("Your session has ended. Copy your draft, sign in, and paste it.");
    else if (refusal) note(refusal);
    else showResult(page, fresh);
  }

  function showResult(page: Document, fresh: HTMLElement): void {
    const found = JSON.parse(fresh.dataset["problems"] ?? "[]") as Problem[];
    show(found);
    if (errors.length > 0 && validSince) {
      const at = validSince.toLocaleTimeString();
      note(`Computed from the last draft without errors, at ${at}. Nothing is stored.`);
      return;
    }
    validSince = errors.length === 0 ? new Date() : null;
    addSymbols(page);
    document.getElementById("editor-result")?.replaceWith(fresh);
    for (const place of fresh.querySelectorAll<HTMLElement>("[data-line]")) linkLine(place);
  }

  function linkLine(place: HTMLElement): void {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.textContent = place.textContent;
    button.addEventListener("click", () => view?.goTo({ line: Number(place.dataset["line"]), column: 1 }));
    place.replaceChildren(button);
  }

  form.addEventListener("submit", (event) => {
    const isPreview = event.submitter instanceof HTMLButtonElement && event.submitter.value === "preview";
    if (!isPreview && errors.length === 0) return;
    // The other listeners of the form believe that it was sent.
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isPreview) void run();
    else if (errors[0]) view?.goTo(errors[0]);
  });

  return {
    /** Checks the draft after a pause. */
    soon(): void {
      clearTimeout(timer);
      timer = window.setTimeout(() => void run(), PAUSE_MS);
    },
    /** The editor of the draft; shows the errors and warnings that the page came with. */
    attach(editor: View): void {
      view = editor;
      const known = JSON.parse(form.dataset["problems"] ?? "[]") as Problem[];
      if (known.length > 0) show(known);
      form.querySelector("[data-editor-fallback]")?.remove();
    },
  };
}

const countText = (kind: Problem["kind"], count: number): string => `${count} ${kind}${count === 1 ? "" : "s"}`;

/** With everything inside. */
const DEEP = true;

/** Errors that are linked below the text. */
const MAX_MARKS = 12;

const saveButtons = (form: HTMLFormElement): HTMLButtonElement[] =>
  [...form.elements].filter(
    (element): element is HTMLButtonElement =>
      element instanceof HTMLButtonElement && element.hasAttribute("data-editor-save"),
  );

/** Says how the shown result came about. */
function note(text: string): void {
  const place = document.querySelector("#editor-result [data-draft-note]");
  if (place) {
    place.textContent = text;
    const box = place.parentElement;
    if (box) box.className = "why why-wait";
    return;
  }
  const paragraph = document.createElement("p");
  paragraph.dataset["draftNote"] = "";
  paragraph.textContent = text;
  const box = document.createElement("div");
  box.className = "why why-wait why-plain";
  box.append(paragraph);
  document.getElementById("editor-result")?.prepend(box);
}
