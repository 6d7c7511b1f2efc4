/** Signing in with OpenID Connect, against a real provider on loopback. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseGroupRoles } from "../../src/config/parse-values.ts";
import { createOidcProvider } from "../../src/auth/oidc-provider.ts";
import type { ClientAuthentication } from "../../src/auth/oidc-provider.ts";
import { createFetch } from "../../src/notifications/fetch.ts";
import type { Fetch } from "../../src/notifications/fetch.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, setPassword, PASSWORD, messageOf, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";
import { CLIENT, startProvider } from "./provider.ts";
import type { OidcServer, ProviderOptions } from "./provider.ts";

const test = suite("web/oidc");

const ROLES = "platform=acme:admin,devs=acme:member,devs=beta:reader,everyone=nowhere:admin";
const NO_ROLE =
  "The login provider accepted you, but none of your groups has a role here, or your account is disabled. Please " +
  "ask the administrator of this server.";
const REFUSED =
  "The login provider refused the sign-in, or its response was not valid. Please try again; if it fails again, ask " +
  "the administrator of this server, who finds the reason in the log.";
const NOT_BEGUN = "This sign-in was started in another browser, or took too long. Please sign in again.";

type OidcWorld = {
  server: TestServer;
  oidc: OidcServer;
  infos: string[];
  browser(): Browser;
  login(browser?: Browser, next?: string): Promise<Page>;
  begin(browser: Browser, next?: string): Promise<string>;
};

/** A server with the organizations acme and beta, and a provider. `tamper` may change their requests and responses. */
type Given = Partial<ProviderOptions> & {
  tamper?: (real: Fetch) => Fetch;
  clientAuth?: ClientAuthentication;
  clientSecret?: string;
};

async function given(options: Given, body: (world: OidcWorld) => Promise<void>): Promise<void> {
  const { tamper, clientAuth = "auto", clientSecret = CLIENT.secret, ...registered } = options;
  const oidc = await startProvider({ inToken: true, ...registered });
  const baseUrl = "http://assay.test";
  oidc.serve(baseUrl);
  const real = createFetch(null);
  const settings = {
    issuer: oidc.issuer,
    clientId: CLIENT.id,
    clientSecret,
    clientAuth,
    scopes: "openid profile email groups",
    groupsClaim: "groups",
  };
  const infos: string[] = [];
  const provider = createOidcProvider(settings, {
    fetch: tamper?.(real) ?? real,
    now: () => Date.now() / 1000,
    info: (facts, text) => void infos.push(`${text} ${JSON.stringify(facts)}`),
  });
  const server = await startServer({ baseUrl, logins: { provider, mapping: parseGroupRoles(ROLES) ?? [] } });
  for (const name of ["acme", "beta"]) server.given.org({ name });
  const browser = (): Browser => createBrowser(server.url);
  /** Signs in at the provider, up to the redirect back to the server. */
  const begin = async (one: Browser, next = ""): Promise<string> => {
    const { status, location } = await one.get(`/login/oidc${next}`);
    assert.is(status, 303);
    const back = new URL(await oidc.visit(location ?? ""));
    assert.is(`${back.origin}${back.pathname}`, `${baseUrl}/login/oidc/callback`);
    return `${back.pathname}${back.search}`;
  };
  const login = async (one = browser(), next = ""): Promise<Page> => one.get(await begin(one, next));
  try {
    await body({ server, oidc, infos, browser, begin, login });
  } finally {
    await server.stop();
    await oidc.stop();
  }
}

const rolesOf = ({ server }: OidcWorld, name: string): Record<string, string> =>
  Object.fromEntries(
    server.store.users
      .listMemberships(server.store.users.find(name)?.id as number)
      .map(({ organization, role }) => [organization, role]),
  );
const eventsOf = ({ server }: OidcWorld, name: string) =>
  server.db
    .prepare(
      "SELECT event_type, role, previous_role, changed_by, source FROM membership_events WHERE user_name = ? ORDER " +
        "BY id",
    )
    .raw()
    .all(name);

for (const inToken of [true, false])
  test(`the groups ${inToken ? "of the ID token" : "of the userinfo endpoint"} set the roles at each login`, () =>
    given({ inToken }, async (world) => {
      const { server, oidc, browser, login } = world;
      oidc.state.person = {
        sub: "42",
        preferred_username: "Ann.B@example.com",
        name: "Ann B.",
        email: "ann@example.com",
        email_verified: true,
        groups: ["devs", "platform", "unknown"],
      };
      const first = browser();
      const answer = await login(first, "?next=%2Fapi%2Fv2%2Fdoc%2F");
      assert.equal(
        { status: answer.status, location: answer.location },
        { status: 303, location: "../../api/v2/doc/" },
      );
      assert.match(
        visibleText(await first.get("/account")),
        new RegExp(
          "^Ann B\\. Sign out .*OpenID Connect.*Login name Ann\\.B Name Ann B\\. E-mail ann @example\\.com .*" +
            "Password You have no password on this server",
        ),
      );
      assert.equal(rolesOf(world, "Ann.B"), { "Ann.B": "admin", acme: "admin", beta: "reader" });
      assert.equal(eventsOf(world, "Ann.B"), [
        ["added", "admin", null, "Ann.B", "oidc"],
        ["added", "admin", null, "Ann.B", "oidc"],
        ["added", "reader", null, "Ann.B", "oidc"],
      ]);
      const token = await first.readApiCsrfToken();
      assert.is(
        (
          await server.call("GET", "/membership-audit-log/acme?source=oidc", {
            headers: { Cookie: `assay=${first.cookies.get("assay")}`, "X-CSRF-Token": token },
          })
        ).body.total_count,
        1,
      );

      oidc.state.person = { sub: "42", preferred_username: "another name", groups: "devs" };
      assert.is((await login()).status, 303);
      assert.equal(rolesOf(world, "Ann.B"), { "Ann.B": "admin", acme: "member", beta: "reader" });
      assert.is(
        (
          await server.call("GET", "/membership-audit-log/acme", {
            headers: { Cookie: `assay=${first.cookies.get("assay")}` },
          })
        ).status,
        403,
        "at once, also for the earlier session",
      );

      oidc.state.person = { sub: "42", groups: [] };
      const second = browser();
      const gone = await login(second);
      assert.equal(
        { status: gone.status, messageOf: messageOf(gone), has: second.cookies.has("assay") },
        { status: 403, messageOf: NO_ROLE, has: false },
      );
      assert.equal(rolesOf(world, "Ann.B"), { "Ann.B": "admin" });
      assert.is((await first.get("/account")).status, 303, "sessions with the earlier groups ended");
      assert.equal(eventsOf(world, "Ann.B").slice(3), [
        ["changed", "member", "admin", "Ann.B", "oidc"],
        ["removed", null, "member", "Ann.B", "oidc"],
        ["removed", null, "reader", "Ann.B", "oidc"],
      ]);
    }));

test("a person without a mapped group gets no account, also if the mapping names an unknown organization", () =>
  given({}, async ({ server, oidc, login }) => {
    for (const groups of [undefined, [], ["everyone"], ["DEVS"], [42]]) {
      oidc.state.person = { sub: "43", preferred_username: "eve", groups };
      const answer = await login();
      assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status: 403, messageOf: NO_ROLE });
    }
    assert.equal(
      {
        users: server.store.users.find("eve"),
        get: server.db.prepare("SELECT count(*) FROM identities").pluck().get(),
      },
      { users: null, get: 0 },
    );
  }));

test("a person never becomes an existing user, whatever name or e-mail address the provider gives", () =>
  given({}, async (world) => {
    const { server, oidc, login } = world;
    const id = server.store.users.create({ name: "ann", displayName: "", email: "ann@example.com" });
    oidc.state.person = { sub: "42", preferred_username: "ann", email: "Ann@example.com", groups: ["devs"] };
    assert.is((await login()).status, 303);
    assert.equal(server.store.users.listMemberships(id), []);
    assert.equal(
      { email: server.store.users.find("ann-2")?.email, rolesOf: rolesOf(world, "ann-2") },
      { email: null, rolesOf: { acme: "member", "ann-2": "admin", beta: "reader" } },
    );
    oidc.state.person = {
      sub: "43",
      preferred_username: "../..",
      email: "zoë@example.com",
      email_verified: false,
      groups: ["devs"],
    };
    assert.is((await login()).status, 303);
    assert.is(server.store.users.find("zoe")?.email, null);
    oidc.state.person = { sub: "44", preferred_username: "acme", groups: ["devs"] };
    assert.is((await login()).status, 303);
    assert.ok(server.store.users.find("acme-2"), "an organization already has the name");
  }));

test("the last admin of an organization remains admin", () =>
  given({}, async (world) => {
    const { server, oidc, login } = world;
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["platform"] };
    await login();
    const acme = server.store.organizations.find("acme")?.id as number;
    const admin = server.store.users.find("acme-admin")?.id as number;
    server.store.organizations.removeMember(acme, { id: admin }, { changedBy: "test" });
    oidc.state.person = { sub: "42", groups: ["devs"] };
    assert.is((await login()).status, 303);
    assert.equal(rolesOf(world, "ann"), { acme: "admin", ann: "admin", beta: "reader" });
    assert.ok(
      server.lines.some((line) => line.includes("the groups of an organization's last admin no longer give that role")),
    );
    server.store.organizations.setRole(acme, { id: admin }, { role: "admin", changedBy: "test" });
    await login();
    assert.is(rolesOf(world, "ann")["acme"], "member");
  }));

test("a disabled user is refused, and not created again", () =>
  given({}, async ({ server, oidc, login }) => {
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["devs"] };
    await login();
    const id = server.store.users.find("ann")?.id as number;
    server.store.identities.block(id);
    const answer = await login();
    assert.equal(
      { status: answer.status, messageOf: messageOf(answer), users: server.store.users.find("ann-2") },
      { status: 403, messageOf: NO_ROLE, users: null },
    );
    server.store.identities.unblock(id);
    assert.is((await login()).status, 303);
  }));

test("a response is valid once, in the browser that started the login", () =>
  given({}, async ({ oidc, browser, begin, server }) => {
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["devs"] };
    const expect = async (page: Promise<Page>, status: number, said: string) =>
      assert.equal(await page.then((answer) => [answer.status, messageOf(answer)]), [status, said]);
    // Another browser, with and without a login in progress.
    const callback = await begin(browser());
    await expect(browser().get(callback), 400, NOT_BEGUN);
    const other = browser();
    await begin(other);
    await expect(other.get(callback), 403, REFUSED);

    const mine = browser();
    const answer = await begin(mine);
    const pending = mine.cookies.get("assay-oidc") as string;
    assert.is((await mine.get(answer)).status, 303);
    assert.not.ok(mine.cookies.has("assay-oidc"));
    await expect(mine.get(answer), 400, NOT_BEGUN);
    await expect(createBrowser(server.url, { Cookie: `assay-oidc=${pending}` }).get(answer), 403, REFUSED);

    for (const change of [{ state: "another" }, { nonce: "another" }, { verifier: "x".repeat(43) }]) {
      const one = browser();
      const back = await begin(one);
      const checks = JSON.parse(Buffer.from(one.cookies.get("assay-oidc") as string, "base64url").toString()) as object;
      one.cookies.set("assay-oidc", Buffer.from(JSON.stringify({ ...checks, ...change })).toString("base64url"));
      await expect(one.get(back), 403, REFUSED);
      assert.not.ok(one.cookies.has("assay"), JSON.stringify(change));
    }
    for (const cookie of ["", "bm9uZQ", Buffer.from('{"state":1}').toString("base64url")]) {
      const one = browser();
      const back = await begin(one);
      one.cookies.set("assay-oidc", cookie);
      await expect(one.get(back), 400, NOT_BEGUN);
    }
    const denied = browser();
    await begin(denied);
    const { state } = JSON.parse(Buffer.from(denied.cookies.get("assay-oidc") as string, "base64url").toString()) as {
      state: string;
    };
    await expect(
      denied.get(`/login/oidc/callback?error=access_denied&state=${state}&iss=${encodeURIComponent(oidc.issuer)}`),
      403,
      REFUSED,
    );
  }));

test("an ID token without a subject is refused, and creates no user", () => {
  let reissue: ((idToken: string) => string) | null = null;
  const tamper =
    (real: Fetch): Fetch =>
    async (url, options) => {
      const response = await real(url, options);
      if (!reissue || !url.endsWith("/token")) return response;
      const body = (await response.json()) as { id_token: string };
      return Response.json({ ...body, id_token: reissue(body.id_token) });
    };
  return given({ inToken: true, tamper }, async ({ oidc, login, server }) => {
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["platform"] };
    const before = server.store.users.count();
    for (const sub of ["", "  "]) {
      reissue = (idToken) => oidc.reissue(idToken, { sub });
      const answer = await login();
      assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status: 403, messageOf: REFUSED });
    }
    assert.is(server.store.users.count(), before);
    assert.is(server.db.prepare("SELECT count(*) FROM identities").pluck().get(), 0);
    reissue = (idToken) => oidc.reissue(idToken, { sub: "43" });
    assert.is((await login()).status, 303, "a token signed by the provider is accepted");
  });
});

/** Fetches as `real` does; the ID token of the response is signed again with these claims, by the provider. */
const reissuing =
  (claims: () => Record<string, unknown> | null, reissue: () => OidcServer["reissue"]) =>
  (real: Fetch): Fetch =>
  async (url, options) => {
    const response = await real(url, options);
    const changed = claims();
    if (changed === null || !url.endsWith("/token")) return response;
    const body = (await response.json()) as { id_token: string };
    return Response.json({ ...body, id_token: reissue()(body.id_token, changed) });
  };

test("an ID token for another client, from the future or with a subject that is too long is refused", () => {
  let claims: Record<string, unknown> | null = null;
  let provider: OidcServer | null = null;
  const tamper = reissuing(
    () => claims,
    () => (provider as OidcServer).reissue,
  );
  return given({ tamper }, async ({ oidc, login, server }) => {
    provider = oidc;
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["platform"] };
    const before = server.store.users.count();
    const now = Math.floor(Date.now() / 1000);
    const refused: [Record<string, unknown>, RegExp][] = [
      [
        { azp: "another-client" },
        /the azp claim of the ID token is \\"another-client\\": it was issued for another client/,
      ],
      [{ iat: now + 3600, exp: now + 7200 }, /the iat claim of the ID token is 3\d\d\d seconds in the future/],
      [{ sub: "s".repeat(256) }, /the sub claim of the ID token has more than 255 characters/],
    ];
    for (const [changes, reason] of refused) {
      claims = changes;
      const answer = await login();
      assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status: 403, messageOf: REFUSED });
      assert.match(server.lines.filter((line) => line.includes("login refused")).at(-1) as string, reason);
    }
    assert.is(server.store.users.count(), before);
    assert.is(server.db.prepare("SELECT count(*) FROM identities").pluck().get(), 0);
    claims = { azp: CLIENT.id, iat: now + 10, sub: "s".repeat(255) };
    assert.is((await login()).status, 303);
  });
});

test("a sign-in is completed once, also with a provider that redeems its code again", () => {
  let kept: Record<string, unknown> | null = null;
  const tamper =
    (real: Fetch): Fetch =>
    async (url, options) => {
      if (!url.endsWith("/token")) return real(url, options);
      kept ??= (await (await real(url, options)).json()) as Record<string, unknown>;
      return Response.json(kept);
    };
  return given({ tamper }, async ({ oidc, begin, browser, server }) => {
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["platform"] };
    const one = browser();
    const callback = await begin(one);
    const pending = one.cookies.get("assay-oidc") as string;
    assert.is((await one.get(callback)).status, 303);
    const again = createBrowser(server.url, { Cookie: `assay-oidc=${pending}` });
    const answer = await again.get(callback);
    assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status: 403, messageOf: REFUSED });
    assert.not.ok(again.cookies.has("assay"));
    assert.ok(server.lines.some((line) => line.includes("the state of this sign-in was used before")));
  });
});

test("an issuer that differs from the configured one, if only by a slash, is shown in both spellings", () => {
  const tamper =
    (real: Fetch): Fetch =>
    async (url, options) => {
      const response = await real(url, options);
      if (!url.endsWith("/.well-known/openid-configuration")) return response;
      const metadata = (await response.json()) as { issuer: string };
      return Response.json({ ...metadata, issuer: `${metadata.issuer}/o/app/` });
    };
  return given({ tamper }, async ({ oidc, browser, server }) => {
    const answer = await browser().get("/login/oidc");
    const said =
      `The login provider calls itself ${oidc.issuer}/o/app/, but this server knows it as ${oidc.issuer}. Both must ` +
      `be the same to the letter: the administrator of this server sets oidc-issuer to ${oidc.issuer}/o/app/`;
    assert.is(answer.status, 503);
    assert.ok(messageOf(answer)?.includes(said));
    assert.ok(server.lines.some((line) => line.includes(said)));
  });
});

test("an ID token that the provider did not sign is refused", () => {
  let forges = false;
  const tamper =
    (real: Fetch): Fetch =>
    async (url, options) => {
      const response = await real(url, options);
      if (!forges || !url.endsWith("/token")) return response;
      const body = (await response.json()) as { id_token: string };
      const [head, payload = "", signature] = body.id_token.split(".");
      const claims = { ...(JSON.parse(Buffer.from(payload, "base64url").toString()) as object), groups: ["platform"] };
      return Response.json({
        ...body,
        id_token: [head, Buffer.from(JSON.stringify(claims)).toString("base64url"), signature].join("."),
      });
    };
  return given({ tamper }, async ({ oidc, login, server }) => {
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["devs"] };
    assert.is((await login()).status, 303);
    forges = true;
    const answer = await login();
    assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status: 403, messageOf: REFUSED });
    assert.is(
      server.store.organizations.findRole(
        server.store.organizations.find("acme")?.id as number,
        server.store.users.find("ann")?.id as number,
      ),
      "member",
    );
  });
});

test("contacts the provider at the first login; while it is down, passwords still work", () =>
  given({}, async ({ server, oidc, browser }) => {
    assert.equal(oidc.state.requests, []);
    await setPassword(server, "acme-admin");
    await oidc.stop();
    const answer = await browser().get("/login/oidc");
    assert.equal(
      { status: answer.status, messageOf: messageOf(answer), "Retry-After": answer.headers.get("Retry-After") },
      {
        status: 503,
        messageOf: "The login provider does not answer. You can try again, or sign in with a password if you have one.",
        "Retry-After": "60",
      },
    );
    assert.ok(
      server.lines.some((line) => line.includes("ECONNREFUSED")),
      "the operator learns why",
    );
    assert.is((await browser().login("acme-admin", PASSWORD)).status, 303);
    assert.match(
      (await browser().get("/login?next=%2Faccount")).text,
      /<a class="button" href="\.\/login\/oidc\?next=%2Faccount">Sign in with OpenID Connect<\/a>/,
    );
  }));

const BASIC = "client_secret_basic";
const POST = "client_secret_post";

/** The registration of a client, the methods in the metadata, the configuration, and the result. */
const CLIENTS: readonly { name: string; given: Given; method: string }[] = [
  { name: "basic, where both are offered", given: { clientMethod: BASIC, offered: [POST, BASIC] }, method: BASIC },
  { name: "basic, where it alone is offered", given: { clientMethod: BASIC, offered: [BASIC] }, method: BASIC },
  { name: "basic, where the description does not say", given: { clientMethod: BASIC, offered: null }, method: BASIC },
  {
    name: "basic, as the operator says",
    given: { clientMethod: BASIC, offered: [POST, BASIC], clientAuth: "basic" },
    method: BASIC,
  },
  {
    name: "post, where it alone is offered",
    given: { clientMethod: POST, offered: [POST, "private_key_jwt"] },
    method: POST,
  },
  {
    name: "post, as the operator says",
    given: { clientMethod: POST, offered: [BASIC, POST], clientAuth: "post" },
    method: POST,
  },
];

for (const { name, given: registered, method } of CLIENTS)
  test(`the server authenticates itself with ${name}`, () =>
    given(registered, async ({ oidc, infos, login }) => {
      oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["devs"] };
      assert.is((await login()).status, 303);
      assert.is((await login()).status, 303);
      assert.equal(oidc.state.methods, [method, method]);
      const facts = {
        issuer: oidc.issuer,
        client_auth: method,
        offered: registered.offered,
        oidc_client_auth: registered.clientAuth ?? "auto",
      };
      assert.equal(infos, [`the login provider was found ${JSON.stringify(facts)}`], "said once");
    }));

test("does not contact a provider that takes no client secret, and logs what it offers", () =>
  given(
    { offered: ["private_key_jwt", "none"], clientMethod: "none" as typeof BASIC },
    async ({ server, oidc, browser }) => {
      const answer = await browser().get("/login/oidc");
      assert.equal({ status: answer.status, methods: oidc.state.methods }, { status: 503, methods: [] });
      const said =
        "it takes no client secret: client_secret_basic and client_secret_post are not among its methods " +
        "(private_key_jwt, none); set oidc-client-auth if one works";
      assert.ok(
        server.lines.some((line) => (JSON.parse(line) as { reason?: string }).reason === said),
        server.lines.join("\n"),
      );
    },
  ));

const reasonsOf = (server: TestServer): string[] =>
  server.lines.flatMap((line) =>
    line.includes("login refused") ? [(JSON.parse(line) as { reason: string }).reason] : [],
  );

test("a refusal by challenge is logged with its error code and description", () =>
  given({ clientMethod: POST, offered: [BASIC, POST] }, async ({ server, oidc, login }) => {
    oidc.state.person = { sub: "42", groups: ["devs"] };
    const challenge = "server responded with a challenge in the WWW-Authenticate HTTP Header";
    const hint = "; this server authenticated with client_secret_basic, see oidc-client-auth";
    const answer = await login();
    assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status: 403, messageOf: REFUSED });
    // Like Keycloak: the challenge has no code, but the body has.
    oidc.state.refuse = (response) =>
      void response
        .writeHead(401, { "WWW-Authenticate": 'Basic realm="x"', "Content-Type": "application/json" })
        .end('{"error":"unauthorized_client","error_description":"Invalid client or Invalid client credentials"}');
    await login();
    oidc.state.refuse = (response) =>
      void response.writeHead(401, { "WWW-Authenticate": 'Basic realm="x"' }).end("go away");
    await login();
    oidc.state.refuse = (response) =>
      void response
        .writeHead(400, { "Content-Type": "application/json" })
        .end('{"error":"invalid_client","error_description":"no"}');
    await login();
    assert.equal(reasonsOf(server), [
      `${challenge} (basic): invalid_client: this client has another method${hint}`,
      `${challenge} (basic): unauthorized_client: Invalid client or Invalid client credentials${hint}`,
      `${challenge} (basic)`,
      `server responded with an error in the response body: invalid_client: no${hint}`,
    ]);
  }));

test("a wrong client secret is logged with the provider's error, and never the secret", () =>
  given({ clientMethod: BASIC, clientSecret: "a-wrong-secret-of-this-test" }, async ({ server, login }) => {
    assert.is((await login()).status, 403);
    const [reason = ""] = reasonsOf(server);
    assert.match(
      reason,
      new RegExp(
        "invalid_client: client authentication failed.*" +
          "this server authenticated with client_secret_basic, see oidc-client-auth$",
      ),
    );
    assert.not.match(server.lines.join(), "a-wrong-secret");
  }));

test("a server without a provider says so", async () => {
  const server = await startServer();
  try {
    for (const path of ["/login/oidc", "/login/oidc/callback?code=x&state=y"])
      assert.is((await createBrowser(server.url).get(path)).status, 404);
    assert.not.match((await createBrowser(server.url).get("/login")).text, /OpenID/);
  } finally {
    await server.stop();
  }
});

test("a form that was submitted when the session had ended comes back after a sign-in at the provider", () =>
  given({}, async (world) => {
    const { server, oidc, browser, login } = world;
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["platform"] };
    const path = "/acme/flows?ask=create";
    const next = `?next=${encodeURIComponent(path)}`;
    const ann = browser();
    const asked = await ann.post(path, { form: "create", name: "typed-before" }, { Origin: "http://assay.test" });
    assert.is(asked.status, 401);
    assert.match(asked.text, `href="../login/oidc${next}"`);
    // Another browser that goes the same way does not get it.
    const other = browser();
    await other.get("/login");
    assert.is((await login(other, next)).status, 303);
    const page = await login(ann, next);
    assert.is(page.status, 200);
    assert.match(page.text, 'value="typed-before"');
    assert.match(visibleText(page), /Your session had ended\. Nothing was stored yet/);
    assert.match(page.text, 'action="../../acme/flows?ask=create"');
    assert.is(server.db.prepare("SELECT count(*) FROM flows").pluck().get(), 0);
    // It waited once.
    await ann.submitForm("/logout", {}, "/account");
    assert.is((await login(ann, next)).status, 303);
  }));

test("a form that was brought back by a password does not come again after a sign-in at the provider", () =>
  given({}, async ({ server, oidc, browser, login }) => {
    oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["platform"] };
    await setPassword(server, "acme-admin");
    const path = "/acme/flows?ask=create";
    const one = browser();
    const headers = { Origin: "http://assay.test" };
    await one.post(path, { form: "create", name: "typed-before" }, headers);
    const token = one.cookies.get("assay-form") ?? "";
    const csrf = await one.readCsrfToken("/login");
    const fields = { csrf, name: "acme-admin", password: PASSWORD, next: path, form: '[["form","create"]]' };
    assert.is((await one.post("/login", fields, headers)).status, 200);
    one.cookies.clear();
    one.cookies.set("assay-form", token);
    assert.is((await login(one, `?next=${encodeURIComponent(path)}`)).status, 303);
  }));

test.run();
