/** Copy buttons: `data-copy` has the text. */

/** Milliseconds for which a button says that it copied. */
const CONFIRMATION_MS = 1500;

export function copyOnClick(): void {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-copy]") : null;
    if (!button) return;
    event.preventDefault();
    void copy(button.dataset["copy"] ?? "").then(() => confirm(button));
  });
}

/** The clipboard of the browser exists on secure origins only; an air-gapped install may be reached without TLS. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "vh";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function confirm(button: HTMLElement): void {
  button.classList.add("copied");
  const status = document.createElement("span");
  status.className = "vh";
  status.setAttribute("role", "status");
  status.textContent = "Copied";
  button.append(status);
  setTimeout(() => {
    button.classList.remove("copied");
    status.remove();
  }, CONFIRMATION_MS);
}
