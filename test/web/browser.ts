/** A minimal browser for login tests: it keeps cookies, sends its origin and submits the forms of pages. */
import type { Role } from "../../src/domain/access.ts";
import type { TestServer } from "../given.ts";

export type Page = { status: number; text: string; location: string | null; headers: Headers };
export type Browser = ReturnType<typeof createBrowser>;

/** The visible text of a page's main part, without markup. */
export const visibleText = ({ text }: Pick<Page, "text">): string =>
  (/<main[^>]*>([\s\S]*)<\/main>/.exec(text)?.[1] ?? text)
    .replace(/<\/?mark>|<wbr>/g, "")
    .replace(/(<a class="c-link"[^>]*>)<title>[^<]*<\/title>/g, "$1")
    .replace(/<[^>]*>/g, " ")
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replace(/\s+/g, " ")
    .trim();

/** The text of the page's alert or status message; null when the page shows none. */
export const messageOf = ({ text }: Pick<Page, "text">): string | null => {
  const message = /<p class="(?:problem|done)" role="(?:alert|status)">([\s\S]*?)<\/p>/.exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

/**
 * @param url base URL of the server
 * @param headers sent with every request
 */
export function createBrowser(url: string, headers: Record<string, string> = {}) {
  const cookies = new Map<string, string>();

  async function send(
    method: string,
    path: string,
    more: { headers?: Record<string, string>; body?: string } = {},
  ): Promise<Page> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(new URL(path, `${url}/`), {
      method,
      redirect: "manual",
      headers: {
        Accept: "text/html,*/*;q=0.8",
        ...(cookie === "" ? {} : { Cookie: cookie }),
        ...headers,
        ...more.headers,
      },
      ...(more.body === undefined ? {} : { body: more.body }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/expires=Thu, 01 Jan 1970/i.test(line)) cookies.delete(name);
      else cookies.set(name, value);
    }
    return {
      status: response.status,
      text: await response.text(),
      location: response.headers.get("Location"),
      headers: response.headers,
    };
  }

  const get = (path: string, more: Record<string, string> = {}): Promise<Page> => send("GET", path, { headers: more });
  const post = (path: string, fields: Record<string, string>, more: Record<string, string> = {}): Promise<Page> =>
    send("POST", path, {
      headers: { "Content-Type": "application/x-www-form-urlencoded", Origin: headers["Origin"] ?? url, ...more },
      body: new URLSearchParams(fields).toString(),
    });

  /** The CSRF token in the forms of a page. */
  async function readCsrfToken(path: string): Promise<string> {
    const { text } = await get(path);
    return /name="csrf" value="([^"]*)"/.exec(text)?.[1] ?? "";
  }

  return {
    cookies,
    send,
    get,
    post,
    readCsrfToken,
    /**
     * Opens `page`, which holds the form, and posts `fields` to `path` with the form's CSRF token. Follows the redirect
     * to what is shown once.
     */
    async submitForm(path: string, fields: Record<string, string>, page = path): Promise<Page> {
      const answer = await post(path, { csrf: await readCsrfToken(page), ...fields });
      const isShownOnce = answer.location !== null && /[?&]shown=/.test(answer.location);
      return isShownOnce ? get(new URL(answer.location as string, new URL(path, url)).href) : answer;
    },
    login: async (name: string, password: string, next = ""): Promise<Page> =>
      post("/login", { csrf: await readCsrfToken("/login"), name, password, next }),
    /** The session's CSRF token, which API requests send as X-CSRF-Token. */
    readApiCsrfToken: async (): Promise<string> =>
      (JSON.parse((await get("/session")).text) as { csrf_token: string }).csrf_token,
  };
}

export const PASSWORD = "correct horse battery";

/** Sets the password of a user; creates the user when there is none of that name. */
export async function setPassword(server: TestServer, name: string, password = PASSWORD): Promise<void> {
  const id = server.store.users.find(name)?.id ?? server.store.users.create({ name, displayName: "", email: null });
  server.store.passwords.set(id, await server.passwords.hash(password));
}

/** A browser in which the user is signed in, with a password that this sets. */
export async function signIn(server: TestServer, name: string): Promise<Browser> {
  await setPassword(server, name);
  const browser = createBrowser(server.url);
  await browser.login(name, PASSWORD);
  return browser;
}

/** A new user with a role in the organization (null: without one), signed in. */
export async function signInWithRole(server: TestServer, org: string, role: Role | null): Promise<Browser> {
  server.given.user(org, role);
  const name = server.db.prepare<[], string>("SELECT name FROM users ORDER BY id DESC LIMIT 1").pluck().get();
  return signIn(server, name as string);
}
