/**
 * The web interface through a real nginx with the configuration of the guide, at the root and below a base path: sign
 * in, follow a trail live, and submit a form, in Chromium.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findCodeBlock } from "../guide/page.ts";
import { FIRST } from "../server/certificates.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";
import { findTool } from "../tools.ts";
import { browser, inChromium, STEP_TIMEOUT_MS } from "./chromium.ts";

const test = suite("integration/proxies");
const inBrowser = inChromium(test);

/** Debian installs it where only the administrator's PATH looks. */
const SYSTEM_NGINX = "/usr/sbin/nginx";
const nginx = findTool("nginx") ?? (existsSync(SYSTEM_NGINX) ? SYSTEM_NGINX : null);
if (nginx === null) console.log("skipped: nginx is not installed, so the interface is not tried behind it");
const behindNginx = nginx === null ? test.skip : inBrowser;

const PASSWORD = "correct horse battery staple";

/** A port that nothing listens on at this moment. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** The guide's configuration with these addresses, as a whole configuration file. Each change must apply. */
function configure(
  directory: string,
  { port, backend, path }: { port: number; backend: string; path: string },
): string {
  const changes: readonly [string, string][] = [
    ["listen 443 ssl;", `listen 127.0.0.1:${port} ssl;`],
    ["/etc/nginx/assay.crt", join(directory, "nginx.crt")],
    ["/etc/nginx/assay.key", join(directory, "nginx.key")],
    ["location / {", `location ${path}/ {`],
    ["proxy_pass http://127.0.0.1:8001;", `proxy_pass ${backend};`],
  ];
  let server = /# nginx\n(server \{[\s\S]*?\n\})/.exec(findCodeBlock("proxies", "# nginx"))?.[1] ?? "";
  for (const [from, to] of changes) {
    assert.ok(server.includes(from), `the guide has no "${from}"`);
    server = server.replace(from, to);
  }
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${directory}/nginx-${name};`)
    .join(" ");
  return `daemon off; pid ${directory}/nginx.pid; error_log stderr notice;
events {}
http { access_log off; ${temporary}
${server}
}
`;
}

/** Runs nginx during `work`, which begins when nginx listens. */
async function withNginx<T>(directory: string, configuration: string, work: () => Promise<T>): Promise<T> {
  const file = join(directory, "nginx.conf");
  writeFileSync(file, configuration);
  writeFileSync(join(directory, "nginx.crt"), FIRST.certificate);
  writeFileSync(join(directory, "nginx.key"), FIRST.key);
  let output = "";
  const child = spawn(nginx as string, ["-c", file, "-p", directory, "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  // nginx opens its sockets before it starts workers. A page that asks too early shows an error page of the browser,
  // and that page can still arrive during the next navigation and interrupt it.
  const listening = new Promise<void>((resolve) => {
    child.stderr.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes("start worker processes")) resolve();
    });
  });
  const ended = once(child, "exit");
  try {
    await Promise.race([listening, ended]);
    assert.is(child.exitCode, null, "nginx runs");
    return await work();
  } catch (error) {
    throw new Error(`${String(error)}\nnginx wrote:\n${output}`, { cause: error });
  } finally {
    child.kill("SIGTERM");
    await ended;
  }
}

/** Calls the API of the server itself. */
async function call(url: string, key: string, [method, path, body]: [string, string, object]): Promise<void> {
  const form = new FormData();
  form.set("data_json", JSON.stringify(body));
  const isForm = !path.startsWith("/flows");
  const response = await fetch(`${url}/api/v2${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, ...(isForm ? {} : { "Content-Type": "application/json" }) },
    body: isForm ? form : JSON.stringify(body),
  });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.text()}`);
}

for (const path of ["", "/assay"])
  behindNginx(
    `sign-in, live updates and forms work through nginx ${path === "" ? "at the root" : `below ${path}`}`,
    () =>
      inDirectory(async (directory) => {
        const data = join(directory, "data");
        mkdirSync(data);
        const key = (await run(["init", "--data", data, "--org", "acme", "--user", "ops"])).stdout.trim();
        const changed = spawnSync(EXECUTABLE, ["user", "passwd", "ops", "--data", data], { input: PASSWORD, env: {} });
        assert.is(changed.status, 0, changed.stderr.toString());
        const port = await freePort();
        const address = `https://127.0.0.1:${port}`;
        const server = await start([
          ...[
            "serve",
            "--data",
            data,
            "--listen",
            "127.0.0.1:0",
            "--base-url",
            address,
            "--trusted-proxies",
            "127.0.0.1",
          ],
          ...(path === "" ? [] : ["--base-path", path]),
        ]);
        const context = await browser.newContext({ ignoreHTTPSErrors: true });
        try {
          const direct = `${server.url.replace(/\/assay$/, "")}${path}`;
          await call(direct, key, ["PUT", "/flows/acme", { name: "shop", description: "" }]);
          await call(direct, key, ["PUT", "/trails/acme/shop", { name: "release-1" }]);
          const backend = new URL(direct).origin;
          await withNginx(directory, configure(directory, { port, backend, path }), async () => {
            context.setDefaultTimeout(STEP_TIMEOUT_MS);
            const page = await context.newPage();
            const complaints: string[] = [];
            page.on("console", (message) => {
              if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
            });
            await page.goto(`${address}${path}/acme/flows/shop/trails/release-1`);
            await page.getByLabel("Login name").fill("ops");
            await page.getByLabel("Password").fill(PASSWORD);
            await page.getByRole("button", { name: "Sign in", exact: true }).click();
            await page.waitForURL(`${address}${path}/acme/flows/shop/trails/release-1`);
            const cookie = (await context.cookies()).find(({ name }) => name.endsWith("assay"));
            assert.ok(cookie?.secure, "nginx told that the client used https");

            // The stream belongs to a worker, whose requests are seen in the log only.
            const attestation = { attestation_name: "unit-tests", is_compliant: true };
            await call(direct, key, ["POST", "/attestations/acme/shop/trail/release-1/generic", attestation]);
            await page.getByText("unit-tests").first().waitFor();

            await page.goto(`${address}${path}/acme/flows/shop?tab=settings`);
            await page.getByRole("textbox", { name: "Description" }).fill("Sold through nginx");
            await page.getByRole("button", { name: "Save" }).click();
            await page.waitForURL(/done=saved/);
            assert.is(await page.getByRole("textbox", { name: "Description" }).inputValue(), "Sold through nginx");
            assert.equal(complaints, []);
          });
          while (!/"route":"live".*"status":200.*"client":"127\.0\.0\.1"/.test(server.output()))
            await new Promise((resolve) => setImmediate(resolve));
        } finally {
          await context.close();
          await server.stop();
        }
      }),
  );

test.run();
