// A thread that reads a database in consecutive transactions; each message ends one and begins the next.
import Database from "better-sqlite3";
import { parentPort, workerData } from "node:worker_threads";
import { loadAddon } from "../../src/store/db/native-addon.ts";

const { file } = workerData as { file: string };
const db = new Database(file, { nativeBinding: loadAddon() as unknown as string });
let open = false;
parentPort?.on("message", () => {
  // The next one begins after this one has ended; another thread reads in between.
  if (open) db.exec("COMMIT");
  db.exec("BEGIN");
  db.prepare("SELECT count(*) FROM sqlite_schema").get();
  open = true;
  parentPort?.postMessage(null);
});
parentPort?.on("close", () => db.close());
