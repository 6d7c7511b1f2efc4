/**
 * The pages of the guide that an operator follows, line by line and in order, as root, in a Debian with a systemd of
 * its own. What the pages take as given is given here: the archive of a release, a disk for backups, a certificate, and
 * the data of a released schema before the upgrade. The old executable of the upgrade is the new one, renamed.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readBuildInfo } from "../../src/assets.ts";
import { bootContainer } from "../guide/container.ts";
import type { Container, Shell } from "../guide/container.ts";
import { NEEDS, RUN_PAGES, findUnprinted, readInstruction } from "../guide/instructions.ts";
import { readBlocks } from "../guide/page.ts";
import { olderVersions, place } from "../upgrades/fixture.ts";

const test = suite("integration/guide-run");
const ROOT = join(import.meta.dirname, "..", "..");

const container = await bootContainer();
if (typeof container === "string")
  console.log(`skipped: the pages of the guide in a Debian of their own: ${container}`);
const testPages = typeof container === "string" ? test.skip : test;
test.after(async () => {
  if (typeof container !== "string") await container.stop();
});

type PageName = (typeof RUN_PAGES)[number];

/** Words of a page that stand for something, with a command that prints what that is here. */
const NEWEST_BACKUP = `until ls /mnt/backup/assay-backup-*Z.tar >/dev/null 2>&1; do sleep 0.1; done
  ls -t /mnt/backup/assay-backup-*Z.tar | head -1`;
const PLACEHOLDERS: Partial<Record<PageName, Readonly<Record<string, string>>>> = {
  installing: { VERSION: `echo ${readBuildInfo().version}` },
  restore: { "/mnt/backup/assay-backup-20260102T030405Z.tar": NEWEST_BACKUP },
  upgrade: {
    "assay-schema-OLD-before-NEW-TIME.db": "basename /var/lib/private/assay/backups/assay-schema-*.db",
  },
};

/** What a page takes as given, as lines of a shell that run before the block that contains the words. */
const GIVEN: Partial<Record<PageName, readonly { before: string; lines: string }[]>> = {
  installing: [{ before: "tar xzf", lines: "echo '127.0.0.1 assay.example.com' >>/etc/hosts" }],
  backup: [{ before: "assay backup", lines: "mkdir -p /mnt/backup" }],
  restore: [
    {
      before: "--service assay",
      lines: "for name in ada bob; do assay user create $name --data /var/lib/assay; done",
    },
  ],
  upgrade: [
    {
      before: "install -m 0755",
      lines: `cp /usr/local/bin/assay assay
        rm -f /var/lib/private/assay/assay.commits
        cp --no-preserve=all -r released/. /var/lib/private/assay/
        chown -R --reference=/var/lib/private/assay /var/lib/private/assay`,
    },
  ],
  // A second machine with a restored replica, where no service has ever run.
  standby: [
    {
      before: "litestream restore",
      lines: "systemctl stop assay; rm /var/lib/assay; chown -R root:root /var/lib/private/assay",
    },
  ],
  tls: [
    {
      before: "install -m 0600",
      lines: `openssl req -x509 -newkey rsa:2048 -nodes -days 90 -subj /CN=assay.example.com \\
        -addext subjectAltName=DNS:assay.example.com -keyout tls.key -out tls.crt 2>/dev/null`,
    },
  ],
};

/** What a reader's other programs do with what the page made, as lines that run after it. */
const AFTERWARDS: Partial<Record<PageName, string>> = {
  // certbot calls the hook with the directory of the renewed certificate.
  tls: `mkdir renewed; openssl req -x509 -newkey rsa:2048 -nodes -days 80 -subj /CN=renewed.example.com \\
      -keyout renewed/privkey.pem -out renewed/fullchain.pem 2>/dev/null
    RENEWED_LINEAGE=/root/renewed /etc/letsencrypt/renewal-hooks/deploy/assay
    until openssl s_client -connect assay.example.com:8443 </dev/null 2>/dev/null | grep -q renewed.example.com
    do sleep 0.1; done`,
};

/** Runs a block whose last command serves until it is stopped: stops it once it listens. */
const serving = (lines: string): string => `
  : >/tmp/served # what the server before said must not be taken for this one
  setsid bash -ec ${quote(lines)} >/tmp/served 2>&1 & served=$!
  until grep -q 'listening on' /tmp/served; do
    kill -0 $served 2>/dev/null || { cat /tmp/served; false; }
    sleep 0.1
  done
  kill -TERM -- -$served; wait $served || true
  while kill -0 -- -$served 2>/dev/null; do sleep 0.1; done
  cat /tmp/served`;

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The text with the values of the page's placeholders in it. */
async function fillIn(page: PageName, text: string, shell: Shell, used: Set<string>): Promise<string> {
  let filled = text;
  for (const [word, command] of Object.entries(PLACEHOLDERS[page] ?? {})) {
    if (!text.includes(word)) continue;
    const { code, output } = await shell.run(command);
    assert.is(code, 0, output);
    used.add(word);
    filled = filled.replaceAll(word, output.trim());
  }
  return filled;
}

/** Runs a page; every block must say what it is and do what it says. */
async function followPage(page: PageName, { put, openShell }: Container): Promise<void> {
  const shell = openShell();
  const run = async (lines: string, about: string): Promise<string> => {
    const { code, output } = await shell.run(lines);
    if (code === 0) return output;
    const other = openShell();
    const journal = await other.run("journalctl --unit assay --no-pager --lines 15 --output cat");
    other.close();
    throw new Error(`${about} ended with ${code}:\n${lines}\n${output}\nthe journal:\n${journal.output}`);
  };
  const skipped = new Map<string, number>();
  const used = new Set<string>();
  let printed = "";
  for (const block of readBlocks(page)) {
    const about = `src/guide/${page}.md:${block.line}`;
    for (const { before, lines } of GIVEN[page] ?? [])
      if (block.text.includes(before) && !used.has(before)) {
        used.add(before);
        await run(lines, `what ${about} takes as given`);
      }
    const instruction = readInstruction(block);
    if (instruction.kind === "text") continue;
    if ("needs" in instruction && instruction.needs !== null) {
      skipped.set(instruction.needs, (skipped.get(instruction.needs) ?? 0) + 1);
      continue;
    }
    const text = await fillIn(page, block.text, shell, used);
    if (instruction.kind === "file") put(instruction.path, text, instruction.mode);
    else if (instruction.kind === "output")
      assert.is(findUnprinted(text, printed), null, `${about}: not in\n${printed}`);
    else printed = await run(instruction.kind === "serve" ? serving(text) : text, about);
  }
  await run(AFTERWARDS[page] ?? "true", `what follows src/guide/${page}.md`);
  shell.close();
  const unused = [...(GIVEN[page] ?? []).map(({ before }) => before), ...Object.keys(PLACEHOLDERS[page] ?? {})].filter(
    (word) => !used.has(word),
  );
  assert.equal(unused, [], "nothing is given that the page does not need");
  for (const [needs, count] of skipped)
    console.log(
      `skipped: ${count} ${count === 1 ? "block" : "blocks"} of the page ${page} for want of ${NEEDS[needs]}`,
    );
}

if (typeof container !== "string") {
  execFileSync(process.execPath, [join(ROOT, "bin", "dist.ts")], { cwd: ROOT });
  const archive = `assay-${readBuildInfo().version}-linux-x64.tar.gz`;
  container.copy(join(ROOT, "dist", archive), `/root/${archive}`);
  const directory = mkdtempSync(join(tmpdir(), "assay-guide-"));
  place(olderVersions().at(-1) ?? 0, directory);
  container.copy(directory, "/root/released");
  rmSync(directory, { recursive: true });
}

for (const page of RUN_PAGES)
  testPages(`the page ${page} does what it says, line by line`, () => followPage(page, container as Container));

test.run();
