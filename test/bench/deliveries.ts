// Whether a thousand messages that wait for slow receivers slow down requests: the same requests to the same server,
// alternately with an empty and a full outbox, on a data directory of its own. Receivers respond after a second, so
// that as many messages as possible are in flight.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { EXECUTABLE } from "../binary/executable.ts";
import { drive } from "./load.ts";
import type { Load, Outcome } from "./load.ts";
import { memory, startMeter, startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { figure, ms, percent } from "./print.ts";
import { ORG, populate } from "./world.ts";
import { systemSources } from "../../src/clock.ts";

const MESSAGES = 1000;
const QUEUES = 50;
const ANSWER_MS = 1000;
const CONNECTIONS = 32;
const WARM_UP_SECONDS = 4;
/** Long rounds, because the outbox is filled before each one. */
const ROUNDS = 3;
const ROUND_SECONDS = 5;
/**
 * Relative to the same requests without messages. Thirty messages a second are thirty connections and a few more
 * commits.
 */
const MIN_RATIO = 0.85;
/** In MB, for 32 connections and two libraries. */
const MAX_GROWTH_MB = 40;

type Round = Outcome & { cpu: number };
type Work = Pick<Load, "next" | "expect">;

/**
 * Measures on a server of its own, which `applyFile` sets up. `works` are requests by name whose responses the server
 * does not cache: the work of requests must not suffer.
 */
export async function measureDeliveries(
  root: string,
  applyFile: string,
  works: readonly (readonly [string, Work])[],
): Promise<void> {
  const data = join(root, "deliveries");
  let taken = 0;
  const receiver = createServer((request, response) => {
    taken += 1;
    request.resume();
    setTimeout(() => response.end("ok"), ANSWER_MS).unref();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  const server = await startServer(
    [
      EXECUTABLE,
      "serve",
      "--data",
      data,
      "--listen",
      "127.0.0.1:0",
      "--bootstrap",
      applyFile,
      "--webhook-allow",
      "127.0.0.1",
    ],
    { output: join(root, "deliveries.log") },
  );
  await populate(server.url);
  const db = openDatabase(data, systemSources.now());
  const store = openStore(db, systemSources);
  const organizationId = store.organizations.find(ORG)?.id as number;

  /** Fills the outbox and waits until the server sends. */
  async function fill(): Promise<void> {
    const before = taken;
    db.transaction(() => {
      for (let n = 0; n < MESSAGES; n += 1) {
        const body = { version: "1.0", event_type: "STARTED_ARTIFACT", description: "x".repeat(1000), n };
        store.outbox.add({
          organizationId,
          queue: `bench ${n % QUEUES}`,
          targetId: null,
          subject: "bench",
          message: { type: "WEBHOOK", webhook, body },
        });
      }
    }).immediate();
    while (taken === before) await sleep(10);
  }
  /** Removes the remaining messages and waits until none is in flight. */
  async function empty(): Promise<void> {
    db.transaction(() => db.exec("DELETE FROM deliveries WHERE state = 'waiting'")).immediate();
    while (db.prepare("SELECT count(*) FROM jobs").pluck().get() !== 0) await sleep(10);
  }

  console.log(
    `\n${MESSAGES} messages in ${QUEUES} queues for receivers that respond after ${ANSWER_MS / 1000} s; ` +
      `${ROUNDS} rounds of ${ROUND_SECONDS} s with them and without`,
  );
  for (const [title, work] of works) {
    await measure(server, work, WARM_UP_SECONDS);
    const [quiet, sending]: [Round[], Round[]] = [[], []];
    let sent = 0;
    let growth = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      // The database grows from round to round, so each variant is first equally often.
      if (round % 2 === 0) quiet.push(await measure(server, work, ROUND_SECONDS));
      const before = memory(server.pid).now;
      await fill();
      const start = taken;
      sending.push(await measure(server, work, ROUND_SECONDS));
      sent += taken - start;
      growth = Math.max(growth, memory(server.pid).now - before);
      await empty();
      if (round % 2 === 1) quiet.push(await measure(server, work, ROUND_SECONDS));
    }
    const [without, withThem] = [median(quiet), median(sending)];
    // Adjacent rounds are compared: on a shared machine, rounds differ by more than the effect.
    const ratios = sending
      .map(({ perSecond }, round) => perSecond / (quiet[round]?.perSecond ?? Number.NaN))
      .sort((a, b) => a - b);
    const ratio = ratios[Math.floor(ratios.length / 2)] ?? Number.NaN;
    const cost = withThem.cpu / withThem.perSecond - without.cpu / without.perSecond;
    figure(
      `${title}, while messages are sent`,
      ratio.toFixed(2),
      [
        `${Math.round(withThem.perSecond)} req/s`,
        `(p50 ${ms(withThem.p50)}, p99 ${ms(withThem.p99)}, ${percent(withThem.cpu)} of a core)`,
        `with ${Math.round(sent / (ROUNDS * ROUND_SECONDS))} messages sent a second,`,
        `${Math.round(without.perSecond)} req/s`,
        `(p50 ${ms(without.p50)}, p99 ${ms(without.p99)}, ${percent(without.cpu)} of a core) without;`,
        `${Math.round(cost * 1e6)} us of CPU more a request`,
      ].join(" "),
      { text: `>= ${MIN_RATIO}`, good: ratio >= MIN_RATIO },
    );
    figure("... and its memory", `+${Math.round(growth)} MB`, "the most that a round added", {
      text: `<= ${MAX_GROWTH_MB} MB`,
      good: growth <= MAX_GROWTH_MB,
    });
  }
  db.close();
  await server.stop();
  receiver.closeAllConnections();
  receiver.close();
}

async function measure(server: Server, work: Work, duration: number): Promise<Round> {
  const used = startMeter(server.pid);
  const outcome = await drive({ url: server.url, connections: CONNECTIONS, ...work }, duration);
  return { ...outcome, cpu: used().main / outcome.seconds };
}

const median = (all: readonly Round[]): Round =>
  [...all].sort((a, b) => a.perSecond - b.perSecond)[Math.floor(all.length / 2)] as Round;
