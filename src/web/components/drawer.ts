/** The drawer: details of one row of a list, beside the page where there is room, else over it. */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { icon } from "./icon.ts";
import type { IconName } from "./icon.ts";

/**
 * Everything but the content is a link, so a drawer needs no script. Where it lies over the page, what is behind it is
 * such a link, too, which closes it.
 * @param options.what what it shows one of, such as "attestation"
 * @param options.previous address of the row before; null at the beginning, left out where there is no order
 */
export function drawer({
  label,
  what,
  position,
  close,
  previous,
  next,
  body,
}: {
  label: Value;
  what: string;
  position?: Value;
  close: string;
  previous?: string | null;
  next?: string | null;
  body: Value;
}): Html {
  return html`<a class="scrim" href="${close}" tabindex="-1" aria-hidden="true"></a>
<aside class="drawer" aria-label="${label}" tabindex="-1"><div class="drawer-h"><span>${position}</span><span
class="grow"></span>${step(previous, { name: "chevron-up", label: `Previous ${what}`, key: "previous" })}${step(next, {
    name: "chevron-down",
    label: `Next ${what}`,
    key: "next",
  })}<a class="btn btn-quiet btn-s btn-icon" href="${close}" data-key="close" aria-label="Close">${icon("x")}</a></div>
${body}</aside>`;
}

/** @param look.key what a key does that stands for the button (client/keys.ts) */
function step(
  href: string | null | undefined,
  { name, label, key }: { name: IconName; label: string; key: "previous" | "next" },
): Html | null {
  if (href === undefined) return null;
  return href === null
    ? html`<span class="btn btn-quiet btn-s btn-icon" aria-disabled="true">${icon(name)}</span>`
    : html`<a class="btn btn-quiet btn-s btn-icon" href="${href}" data-key="${key}" aria-label="${label}">${icon(
        name,
      )}</a>`;
}
