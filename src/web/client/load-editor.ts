/** Loads the editor when a part that came into the page needs it; a page that begins with one loads it itself. */
export function loadEditor(): void {
  const address = document.body.dataset["editorScript"];
  if (address === undefined || document.querySelector("form[data-editor]") === null) return;
  if ([...document.scripts].some((script) => script.getAttribute("src") === address)) return;
  const script = document.createElement("script");
  script.src = address;
  document.head.append(script);
}
