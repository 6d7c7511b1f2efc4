/** The pages of the story with every form that they show, as the administrator finds them by following links. */
import { pages } from "../../src/web/pages/index.ts";
import { PAGES } from "../screenshots/pages.ts";
import type { StoryServer } from "../story/server.ts";
import { ADMIN } from "../story/story.ts";
import type { Browser, Page } from "./browser.ts";

/** The characters of an attribute or text of a page. */
export const decode = (text: string): string =>
  text.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));

/** The page that serves an address. */
export const patternOf = (pathname: string): string =>
  ["/account", ...pages.map(({ path }) => path)].find((path) =>
    new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+").replace(/\{\w+\*\}/g, ".+")}$`).test(pathname),
  ) ?? pathname;

/** What a link opens: its page, with the names of the parameters and the question that it asks. */
function kindOf({ pathname, searchParams }: URL): string {
  const parameters = [...searchParams].map(([name, value]) => (/^(?:ask|tab)$/.test(name) ? `${name}=${value}` : name));
  return `${patternOf(pathname)} ${parameters.sort()}`;
}

/** The pages of the story, and those behind their links that ask something or open a tab. */
export async function* pagesWithForms(
  told: StoryServer,
  admin: Browser,
): AsyncGenerator<{ address: string; page: Page }> {
  const read = async (path: string): Promise<unknown> =>
    (await told.server.call("GET", path, { key: told.story.keys.get(ADMIN) ?? null })).body;
  const known = PAGES.filter(({ isLarge = false, as = ADMIN }) => !isLarge && as === ADMIN);
  const addresses = ["/account", "/acme/settings/retention", "/acme/environments/production?tab=settings"];
  for (const { path } of known) addresses.push(typeof path === "string" ? path : await path(read as never));
  const kinds = new Set<string>();
  for (let address = addresses.shift(); address !== undefined; address = addresses.shift()) {
    const page = await admin.get(address);
    yield { address, page };
    const base = new URL(address, told.server.url);
    for (const [, href = ""] of page.text.matchAll(/<a\s[^>]*href="([^"]*)"/g)) {
      const link = new URL(decode(href), base);
      if (link.origin !== base.origin || !/[?&](?:ask|tab)=/.test(link.search) || kinds.has(kindOf(link))) continue;
      kinds.add(kindOf(link));
      addresses.push(`${link.pathname}${link.search}`);
    }
  }
}

/** Adds what the story does not have, and forms are about: rules of retention, and a hold. */
export async function addRetention(admin: Browser): Promise<void> {
  for (const fields of [
    { form: "rule", flow: "", trails_after_days: "4000", evidence_after_days: "" },
    { form: "rule", flow: "backend-api", trails_after_days: "4000", evidence_after_days: "" },
    { form: "hold", flow: "backend-api", trail: "", reason: "an audit" },
  ]) {
    const { status } = await admin.submitForm("/acme/settings/retention", fields);
    if (status !== 303) throw new Error(`${fields.form}: ${status}`);
  }
}
