// How the cost of a write and of an assert grows from a thousand attestations to a million: the same requests, in
// alternating slices, to a server over a small database of data.ts and to one over a copy of the large one. There they
// go to more trails, which are spread over the whole history, so that the pages that they need are not all the same.
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import Database from "better-sqlite3";
import { EXECUTABLE } from "../binary/executable.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { DATA, environmentName, fill, isBuilt } from "./data.ts";
import { drive, get, sendForm } from "./load.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { CONNECTIONS, interleave } from "./slices.ts";
import type { Measured, Side, Work } from "./slices.ts";
import { atMost, judge, skip } from "./targets.ts";
import { describe } from "./throughput.ts";
import { KEY, ORG, REPORT_BYTES } from "./world.ts";

/** The small database has ten attestations for each trail of two artifacts. */
const SMALL_ARTIFACTS = 200;
/** Trails of the small database, most of it, and of the large one. */
const FEW_TRAILS = 80;
const MANY_TRAILS = 800;
/** Writes of a slice: few, because the trails of the small database must not become long ones. */
const WRITES = 400;
/** data.ts deploys the first artifact of each eighth trail; whatever runs costs more to attest. */
const DEPLOYED_EVERY = 8;
const STARTED_AT = 1_600_000_000;
const TARGET = atMost(1.3, 1.15, "x");

type Place = { flow: string; trail: string; fingerprint: string };
type World = { server: Server; attestations: number; places: readonly Place[] };

/** Trails spread evenly over the history, with an artifact each. */
function placesIn(db: Database.Database, count: number): Place[] {
  const trails = db.prepare("SELECT count(*) FROM trails").pluck().get() as number;
  const place = db.prepare<[string], Place>(
    `SELECT f.name AS flow, t.name AS trail, a.fingerprint
       FROM trails t JOIN flows f ON f.id = t.flow_id JOIN artifacts a ON a.trail_id = t.id
      WHERE t.name = ? LIMIT 1`,
  );
  return Array.from({ length: count }, (_, n) => {
    const number = Math.floor((n * trails) / count);
    const name = `release-${number % DEPLOYED_EVERY === 0 ? number + 1 : number}`;
    const found = place.get(name);
    if (!found) throw new Error(`the database has no trail ${name}`);
    return found;
  });
}

async function start(directory: string, root: string, trails: number): Promise<World> {
  const db = new Database(join(directory, "assay.db"), { readonly: true });
  const attestations = db.prepare("SELECT count(*) FROM attestations").pluck().get() as number;
  const places = placesIn(db, trails);
  db.close();
  const server = await startServer([EXECUTABLE, "serve", "--data", directory, "--listen", "127.0.0.1:0"], {
    output: join(root, `${basename(directory)}.log`),
  });
  return { server, attestations, places };
}

function write(places: readonly Place[]): Work {
  return {
    expect: 201,
    next(n) {
      const { flow, trail, fingerprint } = places[n % places.length] as Place;
      const value = {
        attestation_name: "review",
        is_compliant: true,
        artifact_fingerprint: fingerprint,
        user_data: { padding: "" },
      };
      value.user_data.padding = "x".repeat(REPORT_BYTES - JSON.stringify(value).length);
      const path = `/api/v2/attestations/${ORG}/${flow}/trail/${trail}/generic`;
      return sendForm("POST", path, KEY, { field: "data_json", value });
    },
  };
}

/** Asserts that no cache answers: each slice reads FEW_TRAILS artifacts whose trails were written just before. */
function assertSide({ server, places }: World): Side {
  const writes = write(places);
  let written = 0;
  const rewrite = (): Promise<unknown> => {
    const last = written + FEW_TRAILS;
    return drive({
      url: server.url,
      connections: CONNECTIONS,
      expect: writes.expect,
      next: () => (written < last ? writes.next(written++) : null),
    });
  };
  const next = (n: number): Buffer => {
    const { fingerprint } = places[n % places.length] as Place;
    return get(`/api/v2/asserts/${ORG}/fingerprint/${fingerprint}?environment_name=${environmentName(0)}`, KEY);
  };
  return { server, work: { expect: 200, next }, before: rewrite };
}

/** Compares both databases below the directory `root`. */
export async function measureGrowth(root: string, rounds: number): Promise<void> {
  console.log("");
  if (!isBuilt()) return skip("growth", "run `make bench-data` first");
  const [few, many] = [join(root, "few"), join(root, "many")];
  mkdirSync(few);
  const db = openDatabase(few, STARTED_AT);
  await fill(db, { artifacts: SMALL_ARTIFACTS });
  db.close();
  cpSync(DATA, many, { recursive: true });
  const small = await start(few, root, FEW_TRAILS);
  const large = await start(many, root, MANY_TRAILS);
  const sizes = `${small.attestations} to ${large.attestations} attestations`;
  console.log(`Growth from ${sizes}`);
  const compare = async (title: string, sides: readonly Side[], length: { rounds: number; requests: number }) => {
    const [less, more] = (await interleave(sides, length)) as [Measured, Measured];
    judge(`growth: ${title}, processor time`, more.all / less.all, TARGET, `main thread ${ratio(more, less)}x`);
    console.log(`    few  ${describe(less)}\n    many ${describe(more)}`);
  };
  await compare(
    "write",
    [small, large].map(({ server, places }) => ({ server, work: write(places) })),
    { rounds: 2 * rounds, requests: WRITES },
  );
  await compare("assert", [small, large].map(assertSide), { rounds: 3 * rounds, requests: FEW_TRAILS });
  await small.server.stop();
  await large.server.stop();
  rmSync(many, { recursive: true });
}

const ratio = (more: Measured, less: Measured): string => (more.main / less.main).toFixed(2);
