/** `/{org}/settings`: leads to the first section that the role may see. */
import { listMembers } from "../../../api/accounts/members.ts";
import { html } from "../../html.ts";
import { page } from "../../page/page.ts";

export const settingsPage = page({
  path: "/{org}/settings",
  show: async ({ may, to }) => ({
    title: "Settings",
    section: "settings",
    crumbs: [],
    main: html``,
    redirect: to.settings(may(listMembers) ? "members" : "service-accounts"),
  }),
});
