/** Icons: each refers to a symbol that the frame adds once to the page (frame.ts). */
import { readTextAsset } from "../../assets.ts";
import { Html, html } from "../html.ts";
import type { IconName } from "./icon-names.ts";

export type { IconName };

/**
 * An icon without a meaning of its own: the word beside it says it.
 * @param size "12" or "20" for other than 16 pixels
 */
export const icon = (name: IconName, size: "" | "12" | "20" = ""): Html =>
  html`<svg class="i${size && ` i${size}`}" aria-hidden="true"><use href="#i-${name}"/></svg>`;

let paths: Readonly<Record<string, string>> | null = null;

/** The symbols of all icons that a page uses. */
export function iconSymbols(page: string): Html {
  paths ??= JSON.parse(readTextAsset("ui/client/icons.json")) as Record<string, string>;
  const names = new Set([...page.matchAll(/<use href="#i-([a-z-]+)"\/>/g)].map(([, name]) => name as string));
  const symbols = [...names].sort().map((name) => {
    const drawing = paths?.[name];
    return drawing === undefined ? "" : `<symbol id="i-${name}" viewBox="0 0 16 16">${drawing}</symbol>`;
  });
  return new Html(`<svg hidden>${symbols.join("")}</svg>`);
}
