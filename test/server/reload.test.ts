/** `assay serve` with a certificate: errors in its files, and SIGHUP. */
import { X509Certificate } from "node:crypto";
import { chmodSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli, inDirectory, start } from "../cli/in-process.ts";
import type { Started } from "../cli/in-process.ts";
import { ENCRYPTED_KEYS, ENDED, FIRST, SECOND } from "./certificates.ts";
import { ask, fingerprintAt, fingerprintOf } from "./client.ts";

const test = suite("server/reload");

const put = (directory: string, { certificate, key }: { certificate: string; key: string }): void => {
  writeFileSync(join(directory, "tls.crt"), certificate);
  writeFileSync(join(directory, "tls.key"), key, { mode: 0o600 });
};
const serve = (directory: string, ...more: string[]): string[] => [
  "serve",
  "--data",
  join(directory, "data"),
  "--listen",
  "127.0.0.1:0",
  "--tls-cert",
  join(directory, "tls.crt"),
  "--tls-key",
  join(directory, "tls.key"),
  ...more,
];
const urlOf = async (server: Started): Promise<string> =>
  /listening on (\S+)/.exec(await server.wrote(/API reference/))?.[1] ?? "";
const linesOf = (text: string): Record<string, any>[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));

test("serves https, prints the URL, and logs which certificate it uses", () =>
  inDirectory(async (directory) => {
    put(directory, FIRST);
    const server = start(serve(directory));
    const url = await urlOf(server);
    assert.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);
    assert.ok(server.out().startsWith(`listening on ${url}\nAPI reference: ${url}/api/v2/doc/\n`), server.out());
    assert.is((await ask(url, { path: "/api/v2/openapi.json" })).body.servers[0].url, `${url}/api/v2`);
    const { code, err } = await server.stop();
    assert.is(code, 0);
    const line = linesOf(err).find(({ msg }) => msg === "serving with this certificate");
    assert.equal(
      { subject: line?.["subject"], names: line?.["names"], valid_until: line?.["valid_until"] },
      {
        subject: "O=Assay test, CN=assay.example.com",
        names: ["assay.example.com", "localhost", "127.0.0.1"],
        valid_until: "2120-01-01T00:00:00.000Z",
      },
    );
    assert.not.match(err, "PRIVATE KEY");
  }));

test("invalid files end the start with an explanation, before anything is created", () =>
  inDirectory(async (directory) => {
    const [crt, key] = [join(directory, "tls.crt"), join(directory, "tls.key")];
    const refused = async (pattern: string | RegExp): Promise<void> => {
      const { code, out, err } = await cli(serve(directory));
      assert.equal({ code, out }, { code: 1, out: "" });
      assert.match(err, pattern);
      assert.not.ok(readdirSync(directory).includes("data"), "nothing was created");
    };
    await refused(`assay: cannot read ${crt}: it, or a directory above it, does not exist (ENOENT); check the path\n`);
    put(directory, { ...FIRST, certificate: "nothing" });
    await refused(`assay: ${crt} holds no certificate in PEM form\n`);
    writeFileSync(crt, Buffer.from([0x30, 0x82, 0xff, 0xfe]));
    await refused(`cannot read ${crt}: it is not UTF-8 text`);
    put(directory, { ...FIRST, key: SECOND.key });
    await refused(`assay: the key in ${key} does not belong to the certificate in ${crt}\n`);
    put(directory, { ...FIRST, key: ENCRYPTED_KEYS[0] ?? "" });
    await refused(`assay: ${key} holds an encrypted key`);
    rmSync(key);
    await refused(`assay: cannot read ${key}: it, or a directory above it, does not exist (ENOENT); check the path\n`);
    const { code, err } = await cli(["serve", "--data", directory, "--tls-cert", crt]);
    assert.is(code, 2);
    assert.match(err, "tls-cert and tls-key belong together: give --tls-key FILE or ASSAY_TLS_KEY too");
  }));

test("serves with an expired certificate, or a world-readable key, and warns", () =>
  inDirectory(async (directory) => {
    put(directory, ENDED);
    const key = join(directory, "tls.key");
    chmodSync(key, 0o604);
    const server = start(serve(directory));
    const url = await urlOf(server);
    assert.is(await fingerprintAt(url), fingerprintOf(ENDED));
    const { err } = await server.stop();
    const warnings = linesOf(err)
      .filter(({ level }) => level === "warn")
      .map(({ msg }) => msg);
    assert.equal(warnings, [
      `every user of this machine can read the private key in ${key}: chmod 0600 ${key}`,
      `the certificate in ${join(directory, "tls.crt")} expired on 2021-01-01: clients will refuse it`,
    ]);
  }));

test("SIGHUP loads a new pair, and keeps the old one when the new one is invalid", () =>
  inDirectory(async (directory) => {
    put(directory, FIRST);
    const server = start(serve(directory));
    const url = await urlOf(server);
    assert.is(await fingerprintAt(url), fingerprintOf(FIRST));

    put(directory, SECOND);
    assert.is(await fingerprintAt(url), fingerprintOf(FIRST), "the files are read on SIGHUP only");
    server.signal("SIGHUP");
    await server.wrote(/"msg":"certificate reloaded; new connections use it"/);
    assert.is(await fingerprintAt(url), fingerprintOf(SECOND));

    writeFileSync(join(directory, "tls.key"), FIRST.key);
    server.signal("SIGHUP");
    const text = await server.wrote(/cannot be used; the current one stays in use/);
    const line = linesOf(text).at(-1);
    assert.equal(
      { level: line?.["level"], problem: line?.["problem"] },
      {
        level: "error",
        problem:
          `the key in ${join(directory, "tls.key")} ` +
          `does not belong to the certificate in ${join(directory, "tls.crt")}`,
      },
    );
    assert.is(await fingerprintAt(url), fingerprintOf(SECOND));

    put(directory, FIRST);
    server.signal("SIGHUP");
    server.signal("SIGHUP");
    await server.wrote(/(reloaded; new connections use it[^]*){2}/);
    assert.is(await fingerprintAt(url), fingerprintOf(FIRST));
    const { code, err } = await server.stop();
    assert.equal(
      { code, "linesOf some": linesOf(err).some(({ level }) => level === "warn") },
      { code: 0, "linesOf some": false },
    );
  }));

test("the metrics report when the certificate in use expires", () =>
  inDirectory(async (directory) => {
    put(directory, FIRST);
    const server = start(serve(directory, "--metrics-listen", "127.0.0.1:0"));
    const [, url = ""] =
      /metrics: (http:\S+)/.exec(
        await server.wrote(/API reference[^]*metrics: \S+\n|metrics: \S+\n[^]*API reference/),
      ) ?? [];
    const certificateEnd = async (): Promise<number> =>
      Number(/^assay_certificate_end_timestamp_seconds (\S+)$/m.exec(await (await fetch(url)).text())?.[1]);
    const endOf = ({ certificate }: { certificate: string }): number =>
      Date.parse(new X509Certificate(certificate).validTo) / 1000;
    assert.is(await certificateEnd(), endOf(FIRST));
    put(directory, ENDED);
    server.signal("SIGHUP");
    await server.wrote(/"msg":"certificate reloaded; new connections use it"/);
    assert.is(await certificateEnd(), endOf(ENDED));
    put(directory, { ...SECOND, key: FIRST.key });
    server.signal("SIGHUP");
    await server.wrote(/cannot be used; the current one stays in use/);
    assert.is(await certificateEnd(), endOf(ENDED));
    await server.stop();
  }));

test("SIGHUP without a certificate is logged and changes nothing", () =>
  inDirectory(async (data) => {
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    const url = await urlOf(server);
    server.signal("SIGHUP");
    await server.wrote(/"msg":"reload requested, but tls-cert is not set, so there is nothing to reload"/);
    assert.is((await ask(url, { path: "/ready" })).status, 200);
    assert.is((await server.stop()).code, 0);
  }));

test.run();
