import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, ListenOptions } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli, inDirectory } from "../in-process.ts";

const test = suite("cli/commands/health");

const openssl = (() => {
  try {
    return execFileSync("openssl", ["version"]).length > 0;
  } catch {
    console.log("skipped: health over https wants openssl, which is not here");
    return false;
  }
})();
const overTls = openssl ? test : test.skip;

const ready: RequestListener = (request, response) => {
  response.statusCode = request.url === "/ready" && request.method === "GET" ? 200 : 404;
  response.end(response.statusCode === 200 ? "OK" : "no");
};

/** Runs a server during `body`, which gets the port. */
async function serving(server: Server, place: ListenOptions, body: (port: number) => Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => server.listen(place, resolve));
  try {
    await body((server.address() as AddressInfo).port);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const loopback = { host: "127.0.0.1", port: 0 };

test("checks the server of this configuration, also with wildcard addresses", () =>
  serving(createServer(ready), loopback, async (port) => {
    assert.equal(await cli(["health"], { env: { ASSAY_LISTEN: `127.0.0.1:${port}` } }), {
      code: 0,
      out: "ready\n",
      err: "",
    });
    assert.equal(await cli(["health", "--json", "--listen", `0.0.0.0:${port}`]), {
      code: 0,
      out: `{"ready":true,"url":"http://127.0.0.1:${port}/ready"}\n`,
      err: "",
    });
    // Probes are at the root regardless of the base path.
    assert.is(
      (await cli(["health"], { env: { ASSAY_LISTEN: `127.0.0.1:${port}`, ASSAY_BASE_PATH: "/assay" } })).code,
      0,
    );
  }));

test("checks a URL with or without the path of the probe", async () => {
  const asked: string[] = [];
  const note: RequestListener = (request, response) => {
    asked.push(request.url ?? "");
    response.end("OK\n");
  };
  await serving(createServer(note), loopback, async (port) => {
    for (const path of ["", "/", "/assay", "/assay/", "/ready"])
      assert.is((await cli(["health", "--url", `http://127.0.0.1:${port}${path}`])).code, 0);
  });
  assert.equal(asked, ["/ready", "/ready", "/assay/ready", "/assay/ready", "/ready"]);
});

test("checks a Unix socket", () =>
  inDirectory((directory) => {
    const path = join(directory, "assay.sock");
    return serving(createServer(ready), { path }, async () => {
      assert.equal(await cli(["health", "--url", `unix:${path}`, "--json"]), {
        code: 0,
        out: `{"ready":true,"url":"unix:${path}"}\n`,
        err: "",
      });
    });
  }));

test("fails with the response of a server that is not ready or not ours", async () => {
  const answer =
    (status: number, body: string): RequestListener =>
    (_, response) => {
      response.statusCode = status;
      response.end(body);
    };
  for (const [status, body] of [
    [503, "not ready"],
    [200, "<html>"],
    [200, ""],
    [302, "OK"],
  ] as const) {
    await serving(createServer(answer(status, body)), loopback, async (port) => {
      const url = `http://127.0.0.1:${port}/ready`;
      assert.equal(await cli(["health", "--url", url]), {
        code: 1,
        out: "",
        err: `assay: not ready: ${url} responds with ${status} ${JSON.stringify(body)}\n`,
      });
    });
  }
});

test("fails without a server and on a timeout", async () => {
  let free = 0;
  await serving(createServer(ready), loopback, async (port) => void (free = port));
  assert.equal(await cli(["health", "--url", `http://127.0.0.1:${free}`]), {
    code: 1,
    out: "",
    err: `assay: not ready: http://127.0.0.1:${free}/ready: connect ECONNREFUSED 127.0.0.1:${free}\n`,
  });
  await serving(
    createServer((_, response) => void response.write("O")),
    loopback,
    async (port) => {
      const { code, err } = await cli(["health", "--url", `http://127.0.0.1:${port}`, "--timeout", "1s"]);
      assert.equal(
        { code, err },
        { code: 1, err: `assay: not ready: http://127.0.0.1:${port}/ready: no response within 1 s\n` },
      );
    },
  );
});

overTls("over https its own certificate is not questioned, that of a URL is", () =>
  inDirectory(async (directory) => {
    const [key, certificate] = [join(directory, "key.pem"), join(directory, "cert.pem")];
    execFileSync(
      "openssl",
      [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=assay.example.com",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        key,
        "-out",
        certificate,
      ],
      { stdio: "ignore" },
    );
    const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(certificate) }, ready);
    await serving(server, loopback, async (port) => {
      const own = await cli(["health"], {
        env: { ASSAY_LISTEN: `127.0.0.1:${port}`, ASSAY_TLS_CERT: certificate, ASSAY_TLS_KEY: key },
      });
      assert.equal(own, { code: 0, out: "ready\n", err: "" });
      const strange = await cli(["health", "--url", `https://localhost:${port}`]);
      assert.equal(
        { code: strange.code, err: strange.err },
        {
          code: 1,
          err:
            `assay: not ready: https://localhost:${port}/ready: self-signed certificate; --ca-file FILE adds its ` +
            "authority\n",
        },
      );
      const trusted = await cli(["health", "--url", `https://localhost:${port}`, "--ca-file", certificate]);
      assert.equal({ code: trusted.code, err: trusted.err }, { code: 0, err: "" });
      const misnamed = await cli(["health", "--url", `https://127.0.0.1:${port}`, "--ca-file", certificate]);
      assert.equal([misnamed.code, /does not match certificate/.test(misnamed.err)], [1, true], misnamed.err);
    });
  }),
);

test("explains wrong usage", async () => {
  for (const [args, message] of [
    [
      ["--url", "ftp://localhost"],
      '--url: "ftp://localhost" is not accepted, give http://HOST:PORT, https://HOST:PORT/BASE-PATH or ' +
        "unix:/PATH\nassay: see assay help health",
    ],
    [
      ["--url", "http://u:p@localhost"],
      '--url: "http://u:p@localhost" is not accepted, give http://HOST:PORT, https://HOST:PORT/BASE-PATH or ' +
        "unix:/PATH\nassay: see assay help health",
    ],
    [
      ["--timeout", "soon"],
      '--timeout: "soon" is not accepted, give a duration such as 5s, from 1s to 10m\nassay: see assay help health',
    ],
    [["--listen", "127.0.0.1:0"], "the server listens on a random port (port 0): give its address with --url URL"],
  ] as const)
    assert.equal(await cli(["health", ...args]), { code: 2, out: "", err: `assay: ${message}\n` });
});

test.run();
