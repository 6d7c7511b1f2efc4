/** `/account/keyboard`: the keys of all pages. `?` shows them over the page (client/keys.ts). */
import { pageHead } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { ENTRIES, SETTINGS } from "../../page/frame.ts";
import { page } from "../../page/page.ts";

type Key = readonly [keys: readonly string[], does: string];

const GROUPS: readonly { title: string; keys: readonly Key[] }[] = [
  {
    title: "Anywhere",
    keys: [
      [["Ctrl", "K"], "search, go somewhere, do something"],
      [["/"], "the same"],
      [["?"], "this list"],
      [["T"], "go to a time, and back"],
      [["["], "collapse or expand the navigation"],
      [["Esc"], "close what is on top"],
    ],
  },
  {
    title: "Lists",
    keys: [
      [["J"], "next row"],
      [["K"], "previous row"],
      [["↵"], "open the row"],
      [["F"], "filter"],
      [["N"], "new"],
      [["S"], "save the list as a view"],
    ],
  },
  {
    title: "In a drawer",
    keys: [
      [["J"], "next"],
      [["K"], "previous"],
      [["Esc"], "close, back to the row"],
    ],
  },
  {
    title: "Go to",
    keys: [
      ...[...ENTRIES, SETTINGS].flatMap(({ key, text }): Key[] =>
        key === undefined ? [] : [[["G", key.toUpperCase()], text]],
      ),
      [["G", "V"], "Views"],
      [["G", "L"], "Audit log"],
    ],
  },
];

export const keyboardPage = page({
  path: "/account/keyboard",
  show: async ({ to, preferences }) => ({
    title: "Keyboard",
    section: null,
    crumbs: [{ text: "Account", href: to.account() }],
    main: html`${pageHead({ title: "Keyboard" })}<div data-keyboard><div class="keys-cols">${GROUPS.map(
      groupOf,
    )}</div><p class="sub"><b>Single-key shortcuts are ${
      preferences.keys === "off" ? "switched off" : "on"
    }.</b> <a href="${to.account()}#choose-keys">Change it in your account</a></p></div>`,
  }),
});

const groupOf = ({ title, keys }: (typeof GROUPS)[number]): Html =>
  html`<section><h2>${title}</h2><dl>${keys.map(
    ([names, does]) =>
      html`<div><dt>${names.map(
        (name, at) => html`${at > 0 && names[0] === "G" && html` <span class="sub">then</span> `}<kbd>${name}</kbd>`,
      )}</dt><dd>${does}</dd></div>`,
  )}</dl></section>`;
