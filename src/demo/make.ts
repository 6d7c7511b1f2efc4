/**
 * Makes the data of the demonstration: the story, which ends now, as the database of a new data directory. It is made
 * in memory, and gets its name last, complete and synced. So a process that is killed meanwhile leaves a directory
 * without data, where the next one begins anew, and a start removes what is left in the staging directory.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onPathSync } from "../domain/text/system-errors.ts";
import { lockDirectory } from "../store/db/data-directory-lock.ts";
import { readFileHeader } from "../store/db/database.ts";
import { giveToOwner } from "../store/db/state-directory.ts";
import { syncToDisk } from "../store/db/directories.ts";
import { prepareDirectory } from "../server/prepare-directory.ts";
import { ADMIN, ORG } from "./acme/people.ts";
import { openDemoServer } from "./server.ts";
import { calendarUntil, createTeller, tell } from "./steps.ts";
import type { Calendar, Step } from "./steps.ts";
import { storyOfAcme } from "./story.ts";

/** The directory has data, which a story must not be mixed with. */
export class DemoPlaceError extends Error {
  override readonly name = "DemoPlaceError";
}

type DemoOptions = {
  /** An absolute path; created where it is missing. */
  directory: string;
  /** Epoch seconds at which the story ends. */
  now: number;
  /** Login name of a further administrator, who is not part of the story. */
  developer: string;
  /** Called before each step with its number and with that of all steps. */
  onStep?(step: number, steps: number): void;
  /** Aborts between two steps. */
  signal: AbortSignal;
  /** Restores the directory as it was. Called when this fails, while the lock is held. */
  undo(): void;
};

/** @throws DemoPlaceError, DataDirectoryInUseError, the reason of the signal, the system's error */
export async function makeDemo({ directory, now, developer, undo, ...telling }: DemoOptions): Promise<void> {
  const paths = prepareDirectory(directory);
  const file = join(directory, "assay.db");
  const unfinished = join(paths.staging, "demo.db");
  const lock = lockDirectory(directory);
  try {
    if (readFileHeader(file) !== null) throw new DemoPlaceError(`${directory} has data already`);
    try {
      const calendar = calendarUntil(now);
      const image = await record(paths, [...storyOfAcme(calendar), developerStep(calendar, developer)], telling);
      onPathSync(unfinished, () => writeFileSync(unfinished, image, { mode: 0o600 }));
      giveToOwner(unfinished, directory);
      syncToDisk(unfinished);
      renameSync(unfinished, file);
      syncToDisk(directory);
    } catch (error) {
      rmSync(unfinished, { force: true });
      undo();
      throw error;
    }
  } finally {
    lock.release();
  }
}

/** Tells a story, and returns the bytes of its database. */
async function record(
  paths: Parameters<typeof openDemoServer>[0],
  steps: readonly Step[],
  telling: Pick<DemoOptions, "onStep" | "signal">,
): Promise<Buffer> {
  const server = openDemoServer(paths);
  try {
    await tell(createTeller(server), steps, telling);
    await server.writer.run(() => server.store.apiKeys.flushUses());
    return server.image();
  } finally {
    await server.close();
  }
}

/** The developer can do everything in the company, and does nothing in the story. */
const developerStep = ({ time }: Calendar, developer: string): Step => ({
  at: time("92d 08:05"),
  make: ({ send }) =>
    send("POST", `/members/${ORG}`, { by: ADMIN, body: { name: developer, display_name: "Developer", role: "admin" } }),
});
