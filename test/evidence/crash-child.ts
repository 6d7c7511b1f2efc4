// A process that publishes without end and names each digest on standard output once it is published, until it is
// killed. Started by crash.test.ts with the directory of its vault.
import { writeSync } from "node:fs";
import { join } from "node:path";
import { openLocalStore } from "../../src/evidence/local-store.ts";
import { chunks, contentOf } from "./given.ts";

const root = process.argv[2] ?? "";
let lastId = 0;
const vault = openLocalStore({
  directory: join(root, "evidence"),
  staging: join(root, "staging"),
  ids: () => `child-${++lastId}`,
});

async function publishForEver(lane: number): Promise<void> {
  for (let n = 0; ; n += 1) {
    // Every third goes through a file, the others through memory.
    const size = n % 3 === 0 ? 200_000 : 3000;
    const staged = await vault.stage(chunks(contentOf(size, lane * 1_000_000 + n), 64_000), { limit: size });
    await vault.publish([staged]);
    writeSync(1, `${staged.digest}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, (_, lane) => publishForEver(lane)));
