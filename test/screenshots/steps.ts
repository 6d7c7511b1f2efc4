/** What a person does on a page before its picture is made: menus that open, fields that are typed into, forms sent. */
import type { Page } from "playwright-core";
import { LONG_NAME } from "../story/edge.ts";
import { PASSWORD } from "../web/browser.ts";

export type Step = (page: Page) => Promise<void>;

/** A moment of the story at which something failed. */
export const THEN = "at=2026-11-16T09%3A00Z";

/** Focus scrolls: a bar that stays in the window would lie over the middle of the picture. */
const toTop = (page: Page): Promise<void> => page.evaluate("scrollTo(0, 0)");

/** Opens a menu, or what a summary folds; nothing where the width of the window leaves it out. */
const click =
  (selector: string): Step =>
  async (page) => {
    const opener = page.locator(selector).first();
    if (await opener.isVisible()) await opener.click();
    await toTop(page);
  };

/**
 * Sends a form of the page, which is shown again: it asks before it changes something, or is refused. Neither scripts
 * nor the browser stop what is wrong. What is no field, such as the `do` of a button, is sent beside the fields.
 */
const submit =
  (form: string, fields: Readonly<Record<string, string>>): Step =>
  async (page) => {
    const sent = page.waitForEvent("load");
    await page.evaluate(`(() => {
      const form = [...document.forms].find((one) => one.elements.namedItem("form")?.value === ${JSON.stringify(form)});
      const fields = Object.entries(${JSON.stringify(fields)});
      for (const [name, value] of fields) {
        const field = form.elements.namedItem(name);
        const isField = field !== null && !(field instanceof RadioNodeList);
        if (isField) field.value = value;
        else form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
      }
      HTMLFormElement.prototype.submit.call(form);
    })()`);
    await sent;
    await toTop(page);
  };

/** Sends the form for the first administrator with a token that is wrong. */
export const refuseSetup: Step = async (page) => {
  for (const [name, text] of Object.entries({ token: "x", organization: "acme", name: "ops" }))
    await page.fill(`[name=${name}]`, text);
  for (const name of ["password", "again"]) await page.fill(`[name=${name}]`, PASSWORD);
  await page.click("main button");
  await page.locator(".problem").waitFor();
};

/** The palette about a text, with its list. */
const palette =
  (text: string): Step =>
  async (page) => {
    const search = "document.querySelector('input[data-search]')";
    const typed = JSON.stringify(text);
    await page.evaluate(`${search}.value = ${typed}; ${search}.dispatchEvent(new Event("input", { bubbles: true }))`);
    await page.locator("dialog.palette [data-results]").waitFor({ state: "attached" });
  };

const SETTINGS_OF_FLOW = "/acme/flows/backend-api?tab=settings";

/** What opens over a page, and forms that ask before they change something or were refused. */
export const OPENED: Readonly<Record<string, [path: string, step: Step]>> = {
  "opened-time": ["/acme", click("[data-time-menu]")],
  "opened-time-past": [`/acme?${THEN}`, click("[data-time-menu]")],
  "opened-organizations": ["/acme", click(".org-menu summary")],
  "opened-save-view": ["/acme/artifacts?state=NON-COMPLIANT", click(".save-view summary")],
  "opened-filters": ["/acme/attestations", click(".filters-more summary")],
  "opened-period": ["/acme/changes", click(".filters-range summary")],
  "opened-commits": [
    "/acme/env-diff?left=production-eu%40%7B30.days.ago%7D&right=production-eu",
    click(".diff-commits summary"),
  ],
  "opened-event": ["/acme/settings/audit-log", click(".detail-json summary")],
  "opened-palette": ["/acme", palette("")],
  "opened-palette-typed": ["/acme", palette("release")],
  "opened-palette-commands": ["/acme", palette("> ")],
  "opened-palette-nothing": ["/acme", palette("fffffff")],
  "asked-rename": [`/edge/flows/${LONG_NAME}?tab=settings`, submit("rename", { new_name: "renamed" })],
  "asked-tag": ["/acme/flows/web-checkout?tab=settings", submit("set_tag", { key: "pci", value: "true" })],
  "asked-members": [
    "/acme/environments/production?tab=settings",
    submit("members", { included_environments: "batch-settlement" }),
  ],
  "refused-flow": ["/acme/flows?ask=create", submit("create", { name: "not a name" })],
  "refused-rename": [SETTINGS_OF_FLOW, submit("rename", { new_name: "web-checkout" })],
  "refused-environment": ["/acme/environments?ask=create", submit("create", { name: "production-eu" })],
  "refused-policy": ["/acme/policies?ask=create", submit("create", { name: "a b" })],
  "refused-control": ["/acme/controls?ask=create", submit("create", { identifier: "SEC-REL-4", name: "" })],
  "refused-member": ["/acme/settings/members?ask=add", submit("add", { user: "nobody-like-this" })],
  "refused-account": ["/acme/settings/service-accounts?ask=create", submit("create", { name: "a b" })],
  "refused-action": ["/acme/actions?ask=create", submit("put", { name: "" })],
  "refused-hold": ["/acme/settings/retention?ask=hold", submit("hold", { flow: "no-such-flow" })],
  "refused-type": ["/acme/attestation-types?ask=create", submit("create", { name: "a b" })],
  "checked-template": [
    "/acme/flows/backend-api?tab=template&ask=edit",
    submit("template", {
      do: "preview",
      template_file: `version: 1
trail:
  attestations:
    - { name: change-ticket, type: jira }
  artifacts:
    - name: backend-api
      attestations:
        - { name: unit-tests, type: junit }
`,
    }),
  ],
  "refused-template": [
    "/acme/flows/backend-api?tab=template&ask=edit",
    submit("template", { template_file: "version: 9" }),
  ],
};
