/** What scripts add to every page. Each part works on whatever the page contains, also after a part was replaced. */
import "htmx.org";
import { noticeAbsence } from "./away.ts";
import { boostWithinPage } from "./boost.ts";
import { chooseInPlace } from "./choices.ts";
import { copyOnClick } from "./copy.ts";
import { actOnKeys } from "./keys.ts";
import { loadEditor } from "./load-editor.ts";
import { followLive } from "./live.ts";
import { closeMenus } from "./menus.ts";
import { openPalette } from "./palette.ts";
import { rememberPlaces } from "./recent.ts";
import { submitSliders } from "./slider.ts";
import { showCurrentTabs } from "./tabs.ts";
import { showTimeOfPrinting, showTimes } from "./times.ts";

document.documentElement.classList.add("js");
boostWithinPage();
noticeAbsence();
chooseInPlace();
copyOnClick();
openPalette();
rememberPlaces();
closeMenus();
actOnKeys();
followLive();
submitSliders();
showTimes(document);
showCurrentTabs();
addEventListener("beforeprint", showTimeOfPrinting);
document.addEventListener("htmx:after:swap", () => {
  showTimes(document);
  showCurrentTabs();
  loadEditor();
});
