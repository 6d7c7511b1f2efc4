/** What scripts add to every page. Each part works on whatever the page contains, also after a part was replaced. */
import "htmx.org";
import { boostWithinPage } from "./boost.ts";
import { chooseInPlace } from "./choices.ts";
import { copyOnClick } from "./copy.ts";
import { loadEditor } from "./load-editor.ts";
import { followLive } from "./live.ts";
import { closeMenus } from "./menus.ts";
import { openSearch } from "./search.ts";
import { submitSliders } from "./slider.ts";
import { showTimes } from "./times.ts";

document.documentElement.classList.add("js");
boostWithinPage();
chooseInPlace();
copyOnClick();
openSearch();
closeMenus();
followLive();
submitSliders();
showTimes(document);
document.addEventListener("htmx:after:swap", () => {
  showTimes(document);
  loadEditor();
});
