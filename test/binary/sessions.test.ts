// Logins at the executable: the first administrator by one-time token, passwords set on the command line while it
// serves, the API by session, a login through a real OpenID provider, and what survives a restart.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createBrowser, PASSWORD, messageOf, visibleText } from "../web/browser.ts";
import { CLIENT, startProvider } from "../web/provider.ts";
import { EXECUTABLE, inDirectory, run, start } from "./executable.ts";

const test = suite("binary/sessions");

test("the first administrator is claimed once, works without a key, and is signed out by the operator", () =>
  inDirectory(async (data) => {
    const file = join(data, "setup-token");
    const serve = () => start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    let server = await serve();
    const printed =
      /one-time token, which is also in (\S+)\n([\w-]{43})\n/.exec(await server.wrote(/setup-token\n.*\n/)) ?? [];
    assert.equal({ file: printed[1], token: printed[2] }, { file, token: readFileSync(file, "utf8").trim() });
    assert.is(statSync(file).mode & 0o777, 0o600);
    await server.stop();

    server = await serve();
    await server.wrote(/with the one-time token in /);
    assert.not.ok(server.output().includes(printed[2] ?? ""), "the token is printed only once");
    const claims = await Promise.all(
      Array.from({ length: 4 }, async (_, index) => {
        const browser = createBrowser(server.url);
        const answer = await browser.submitForm("/setup", {
          token: printed[2] ?? "",
          organization: `acme-${index}`,
          name: `ops-${index}`,
          password: PASSWORD,
          again: PASSWORD,
        });
        return { browser, status: answer.status };
      }),
    );
    assert.equal(claims.map(({ status }) => status).sort(), [303, 409, 409, 409]);
    assert.not.ok(existsSync(file));
    const winner = claims.findIndex(({ status }) => status === 303);
    const { browser } = claims[winner] as (typeof claims)[number];
    assert.match(visibleText(await browser.get("/account")), new RegExp(`acme-${winner} admin`));

    const control = async (identifier: string, headers: Record<string, string>) => {
      const { status, text } = await browser.send("POST", `/api/v2/controls/acme-${winner}`, {
        headers: { "Content-Type": "application/json", ...headers },
        body: JSON.stringify({ identifier, name: identifier }),
      });
      return [status, status === 201 ? null : JSON.parse(text)];
    };
    assert.equal(await control("one", {}), [403, { message: "CSRF token missing" }]);
    assert.equal(await control("one", { "X-CSRF-Token": await browser.readApiCsrfToken() }), [201, null]);

    await server.stop();
    server = await serve();
    const again = createBrowser(server.url);
    for (const [name, value] of browser.cookies) again.cookies.set(name, value);
    assert.is((await again.get("/account")).status, 200, "sessions survive a restart");
    const { stdout } = await run(["session", "revoke", "--all", "--data", data]);
    assert.is(stdout, "ended 1 session\n");
    assert.equal(await again.get("/account").then(({ status, location }) => [status, location]), [
      303,
      "./login?next=%2Faccount",
    ]);
    assert.is((await again.get(`/api/v2/flows/acme-${winner}`)).status, 401);
    assert.is((await again.login(`ops-${winner}`, PASSWORD)).status, 303);
    assert.is((await createBrowser(server.url).get("/setup")).status, 303);
    await server.stop();
  }));

test("users sign in through an OpenID provider, and are refused once they are disabled", () =>
  inDirectory(async (data) => {
    const oidc = await startProvider({ inToken: true });
    try {
      await run(["init", "--org", "acme", "--user", "ops", "--data", data]);
      assert.not.ok(existsSync(join(data, "setup-token")));
      const server = await start(
        [
          "serve",
          "--data",
          data,
          "--listen",
          "127.0.0.1:0",
          "--oidc-issuer",
          oidc.issuer,
          "--oidc-client-id",
          CLIENT.id,
          "--oidc-roles",
          "devs=acme:member",
          "--oidc-scopes",
          "openid profile groups",
        ],
        { env: { ASSAY_OIDC_CLIENT_SECRET: CLIENT.secret } },
      );
      assert.not.match(server.output(), /one-time token/);
      oidc.serve(server.url);
      oidc.state.person = { sub: "42", preferred_username: "ann", groups: ["devs"] };
      const browser = createBrowser(server.url);
      const login = async () =>
        browser.get((await oidc.visit((await browser.get("/login/oidc")).location ?? "")).slice(server.url.length));
      assert.equal(await login().then(({ status, location }) => [status, location]), [303, "../../acme"]);
      assert.match(visibleText(await browser.get("/account")), /acme member .*ann \(personal\) admin/);
      assert.match((await run(["user", "disable", "ann", "--data", data])).stdout, /^disabled ann/);
      assert.is((await browser.get("/account")).status, 303);
      assert.match(
        messageOf(await login()) ?? "",
        /^The login provider accepted you, but none of your groups has a role here/,
      );
      await server.stop();
    } finally {
      await oidc.stop();
    }
  }));

const SCRIPT = "/usr/bin/script";
const testAtTerminal = existsSync(SCRIPT) ? test : test.skip;
if (!existsSync(SCRIPT)) console.log(`skipped: typing a password at a terminal needs ${SCRIPT}`);

testAtTerminal("a password typed at a terminal is not echoed", () =>
  inDirectory(async (data) => {
    await run(["init", "--org", "acme", "--user", "ops", "--data", data]);
    const typeAnswers = async (...answers: string[]): Promise<string> => {
      const child = spawn(SCRIPT, ["-qec", `${EXECUTABLE} user passwd ops --data ${data}`, "/dev/null"], {
        env: { TERM: "xterm", SHELL: "/bin/sh" },
      });
      let output = "";
      child.stdout.on("data", (bytes: Buffer) => {
        output += bytes.toString();
        // Types each answer after its prompt.
        if (/: $/.test(output) && answers.length > 0) child.stdin.write(answers.shift() ?? "");
      });
      await new Promise((resolve) => child.once("close", resolve));
      return output.replaceAll("\r", "");
    };
    assert.is(
      await typeAnswers("correct horsf\u007fe battery\r", "correct horse battery\r"),
      "New password of ops: \nAgain: \nset the password of ops, ended 0 sessions\n",
    );
    assert.is(
      await typeAnswers("correct horse battery\r", "another horse battery\r"),
      "New password of ops: \nAgain: \nassay: nothing was changed: the two passwords differ\n",
    );
    assert.is(
      await typeAnswers("half of it\u0003"),
      "New password of ops: \nassay: nothing was changed: no password was entered\n",
    );
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.is((await createBrowser(server.url).login("ops", "correct horse battery")).status, 303);
    await server.stop();
  }),
);

test.run();
