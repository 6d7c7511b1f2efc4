import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { OPTIONS } from "../../../src/config/options.ts";
import { cli } from "../in-process.ts";

const test = suite("cli/commands/config");

test("explain describes every option, or one by any of its names", async () => {
  const { options } = JSON.parse((await cli(["config", "explain", "--json"])).out);
  assert.equal(
    options.map(({ flag }: { flag: string }) => flag),
    Object.values(OPTIONS).map(({ flag }) => `--${flag}`),
  );
  const text =
    "--smtp-url URL\n    Mail server for notifications; without it, no mail is sent.\n" +
    "    variable ASSAY_SMTP_URL, key smtp_url, secret\n" +
    "    accepts smtp://USER:PASSWORD@HOST:PORT or smtps://..., where user, password and port are optional; " +
    "percent-encode special characters as in %40\n";
  for (const name of ["smtp-url", "smtp_url", "ASSAY_SMTP_URL"])
    assert.equal(await cli(["config", "explain", name]), { code: 0, out: text, err: "" });
  assert.equal(await cli(["config", "explain", "nothing"]), {
    code: 2,
    out: "",
    err: 'assay: there is no option "nothing"; assay config explain lists all\nassay: see assay help config explain\n',
  });
});

test("show prints effective values and their sources, with secrets masked", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-test-"));
  try {
    const file = join(directory, "assay.yaml");
    writeFileSync(
      file,
      "data: /srv/assay\nlisten: 127.0.0.1:1\nsmtp_url: smtp://u:hunter2@mail\nsmtp_from: a@b.example\n",
    );
    const shown = await cli(["config", "show", "--config", file, "--listen", "127.0.0.1:2"], {
      env: { ASSAY_LISTEN: "127.0.0.1:3", ASSAY_METRICS_KEY: "hunter2hunter2hunter2" },
    });
    assert.equal({ code: shown.code, err: shown.err }, { code: 0, err: "" });
    assert.not.match(shown.out, "hunter2");
    const lines = shown.out.split("\n").map((line) => line.replace(/ {2,}/g, "  "));
    assert.ok(lines.includes(`data  /srv/assay  [file ${file} line 1]`), shown.out);
    assert.ok(lines.includes("listen  127.0.0.1:2  [flag --listen]"), shown.out);
    assert.ok(lines.includes(`smtp-url  (secret)  [file ${file} line 3]`), shown.out);
    assert.ok(lines.includes("metrics-key  (secret)  [variable ASSAY_METRICS_KEY]"), shown.out);
    assert.ok(lines.includes("bootstrap  (not set)  [default]"), shown.out);
    const { options } = JSON.parse((await cli(["config", "show", "--config", file, "--json"])).out);
    assert.equal(
      options.find(({ option }: { option: string }) => option === "smtp-url"),
      { option: "smtp-url", value: "(secret)", source: `file ${file} line 3` },
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("show reports the same mistakes as serve, all at once", async () => {
  const refused = await cli(["config", "show", "--listen", "nowhere", "--tls-key", "", "--backup-every", "1s"], {
    env: { ASSAY_LISTNE: "x" },
  });
  assert.is(refused.code, 2);
  assert.is(refused.out, "");
  for (const word of [
    'listen (flag --listen): "nowhere"',
    "tls-key (flag --tls-key)",
    "backup-every (flag --backup-every)",
    "unknown variable ASSAY_LISTNE",
  ])
    assert.match(refused.err, word);
  const half = await cli(["config", "show", "--tls-key", "k.pem"]);
  assert.equal(half, {
    code: 2,
    out: "",
    err: "assay: tls-cert and tls-key belong together: give --tls-cert FILE or ASSAY_TLS_CERT too\n",
  });
});

test.run();
