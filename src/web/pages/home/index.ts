/** The overview, search and repositories. */
import type { Page } from "../../page/page.ts";
import { morePage } from "./more.ts";
import { overviewPage } from "./overview.ts";
import { repoPage } from "./repo.ts";
import { reposPage } from "./repos.ts";
import { searchPage } from "./search.ts";

export const homePages: readonly Page[] = [overviewPage, searchPage, reposPage, repoPage, morePage];
