// Makes the fixture of a released schema: starts the program of that release, sends it the story, and stores its
// database, its evidence and its responses. `make fixture` does so with this checkout at a release; for an older one:
//
//     git worktree add --detach /tmp/old COMMIT && ln -s "$PWD/node_modules" /tmp/old/node_modules
//     node test/cases/upgrades/make.ts /tmp/old
//
// A fixture is never remade: it is what that release wrote, whatever later ones would write.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import Database from "better-sqlite3";
import { createClient } from "../../binary/client.ts";
import { ACCOUNTS, ask, BOT_KEY, scan, tell, WHOLE_API } from "./story.ts";
import type { Door } from "./story.ts";

/** Size of the compressed database: the repository keeps it for ever. */
const MAX_FIXTURE_BYTES = 200 * 1024;

const checkout = resolve(process.argv[2] ?? join(import.meta.dirname, "..", "..", ".."));
const data = mkdtempSync(join(tmpdir(), "assay-fixture-"));
try {
  await make();
} finally {
  rmSync(data, { recursive: true, force: true });
}

async function make(): Promise<void> {
  const program = [join(checkout, "src", "main.ts")];
  const key = execFileSync(process.execPath, [...program, "init", "--data", data, "--org", "acme", "--user", "ops"], {
    encoding: "utf8",
  }).trim();
  const era = readFileSync(join(data, "assay.db")).readUInt32BE(60);
  const place = join(import.meta.dirname, `schema-${era}`);
  if (existsSync(place)) throw new Error(`${place} is there already, and fixtures are not made again`);

  const bootstrap = join(data, "apply.yml");
  writeFileSync(bootstrap, ACCOUNTS);
  const door =
    era < WHOLE_API
      ? null
      : (JSON.parse(
          execFileSync(
            process.execPath,
            [...program, "webhook", "enable", "sonar", "--data", data, "--org", "acme", "--json"],
            { encoding: "utf8" },
          ),
        ) as Door);
  const server = spawn(
    process.execPath,
    [
      ...program,
      "serve",
      "--data",
      data,
      "--bootstrap",
      bootstrap,
      "--listen",
      "127.0.0.1:0",
      "--base-url",
      "https://assay.example.com",
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const ended = new Promise<number | null>((done) => server.once("exit", done));
  let answers: Record<string, unknown> = {};
  try {
    const url = await address(server.stdout);
    const client = createClient(url, key);
    await tell(client, createClient(url, BOT_KEY), era);
    if (door) await scan(url, door);
    answers = await ask(client, era);
  } finally {
    server.kill("SIGTERM");
  }
  if ((await ended) !== 0) throw new Error("the server did not stop in order");

  mkdirSync(place);
  const file = join(place, "assay.db");
  const db = new Database(join(data, "assay.db"));
  // A message waits in it, and that of the next morning; a server started on a copy of the fixture must not send them.
  if (era >= WHOLE_API)
    db.exec(
      "UPDATE jobs SET due_at = 4102444800 WHERE kind IN ('deliver', 'daily_changes'); " +
        "UPDATE deliveries SET due_at = 4102444800",
    );
  db.prepare("VACUUM INTO ?").run(file);
  db.close();
  const compressed = gzipSync(readFileSync(file), { level: 9 });
  rmSync(file);
  if (compressed.length > MAX_FIXTURE_BYTES) throw new Error(`the database is ${compressed.length} bytes, compressed`);
  writeFileSync(`${file}.gz`, compressed);
  cpSync(join(data, "evidence"), join(place, "evidence"), { recursive: true });
  const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], { cwd: checkout, encoding: "utf8" }).trim();
  const lines = Object.entries(answers).map(([path, answer]) => `${JSON.stringify(path)}: ${JSON.stringify(answer)}`);
  writeFileSync(
    join(place, "answers.json"),
    `{"commit": "${commit}", "key": "${key}", "answers": {\n${lines.join(",\n")}\n}}\n`,
  );
  console.log(`schema ${era} of ${commit}: ${compressed.length} bytes, ${Object.keys(answers).length} answers`);
}

/** The address that it reports to listen on. */
function address(output: NodeJS.ReadableStream): Promise<string> {
  return new Promise((found, failed) => {
    let text = "";
    output.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      const url = /listening on (http:\/\/[^\s"]+)/.exec(text)?.[1];
      if (url !== undefined) found(url);
    });
    output.on("end", () => failed(new Error(`the server ended:\n${text}`)));
  });
}
