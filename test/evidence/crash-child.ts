// A process that publishes content until it is killed, and prints each digest once it is published. crash.test.ts
// starts it with the directory of its store.
import { writeSync } from "node:fs";
import { join } from "node:path";
import { openLocalStore } from "../../src/evidence/local-store.ts";
import { chunks, contentOf } from "./given.ts";

const root = process.argv[2] ?? "";
let lastId = 0;
const store = openLocalStore({
  directory: join(root, "evidence"),
  staging: join(root, "staging"),
  ids: () => `child-${++lastId}`,
});

async function publishForever(lane: number): Promise<void> {
  for (let n = 0; ; n += 1) {
    // Every third upload goes through a file, the others through memory.
    const size = n % 3 === 0 ? 200_000 : 3000;
    const staged = await store.stage(chunks(contentOf(size, lane * 1_000_000 + n), 64_000), { limit: size });
    await store.publish([staged]);
    writeSync(1, `${staged.digest}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, (_, lane) => publishForever(lane)));
