/** Two evaluations that take all the memory they can get, beside snapshots that nobody reads (newer-clients 6.6). */
import { hasEnded, openUnread, readHeldBytes, startLimited } from "./read-attack.ts";
import type { Attacked } from "./read-attack.ts";
import { FLOW, ORG, SMALL_TRAIL } from "./large-world.ts";
import { MEMORY_BOMB } from "./rego.ts";

const UNREAD = 16;
/** Seconds in which an evaluation ends, and a little more for a busy machine. Each read waits for five of them. */
const MAX_READS = 12;

type Ended = { id: string; status: string; error?: { kind: string; message: string } };

/**
 * @param path of the snapshot, below the API root
 * @returns what went wrong: the server ended or kept memory, or an evaluation has a verdict or no reason
 */
export async function attackWithBombs(attacked: Attacked, path: string): Promise<string[]> {
  const server = await startLimited(attacked);
  const problems: string[] = [];
  const snapshot = { url: `${server.url}/api/v2${path}`, key: attacked.keys.reader };
  const unread = Array.from({ length: UNREAD }, () => openUnread(snapshot));
  await Promise.race(unread.map(({ began }) => began));
  const call = async (address: string, init: RequestInit = {}): Promise<Ended> => {
    const headers = { Authorization: `Bearer ${attacked.keys.admin}`, "Content-Type": "application/json" };
    const answer = await fetch(`${server.url}/api/v2/evaluations/${ORG}${address}`, { ...init, headers });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${answer.status} ${text}`);
    return JSON.parse(text) as Ended;
  };
  try {
    const requested = await Promise.all(
      [1, 2].map((number) =>
        call("", {
          method: "POST",
          body: JSON.stringify({
            context: { trails: [{ flow: FLOW, trail: SMALL_TRAIL }] },
            policy: { files: { "policy.rego": MEMORY_BOMB } },
            params: { number },
          }),
        }),
      ),
    );
    for (const { id } of requested) {
      let read = await call(`/${id}`);
      for (let reads = 1; read.status === "pending" && reads < MAX_READS; reads += 1) read = await call(`/${id}`);
      if (read.status !== "failed" || !read.error?.message) problems.push(`evaluation ${id}: ${JSON.stringify(read)}`);
    }
  } catch (error) {
    problems.push(String(error));
  }
  const ended = await hasEnded(server);
  for (const { request } of unread) request.destroy();
  if (ended) return [...problems, `the server ended: ${ended}\n${server.output().slice(-600)}`];
  const held = await readHeldBytes(server);
  if (held !== 0) problems.push(`${held} bytes of the memory budget are still held`);
  await server.stop();
  return problems.map((problem) => `bombs beside unread snapshots: ${problem}`);
}
