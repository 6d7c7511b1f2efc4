/** A server that the story has been told on. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startServer } from "../given.ts";
import type { ServerOptions, TestServer } from "../given.ts";
import { DEMO_SENDER } from "../../src/demo/server.ts";
import { ADMIN, countingIds, seedStory } from "./story.ts";
import type { Story, StoryOptions } from "./story.ts";
import { attachPolicyOfName, saveViews, setRetentionRule } from "./views.ts";

/** Before the end of the story, and behind everything that it tells: seconds. */
const VIEWS_SAVED_S = 600;

export type StoryServer = { server: TestServer; story: Story };

/** Starts a server, tells the story on it, and saves views. The ids of all records are the same in every run. */
export async function startStoryServer(
  options: StoryOptions = {},
  serverOptions: ServerOptions = {},
): Promise<StoryServer> {
  const server = await startServer({ newId: countingIds(), sender: DEMO_SENDER, ...serverOptions });
  try {
    const story = await seedStory(server, options);
    const key = story.keys.get(ADMIN) as string;
    server.clock.at = story.now - VIEWS_SAVED_S;
    await saveViews(server, key);
    await setRetentionRule(server, key);
    await attachPolicyOfName(server, key);
    server.clock.at = story.now;
    return { server, story };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

const DATABASE = "story.db";
const KEYS = "story.json";

/** Saves rows, evidence and keys, for `startSavedStory`. @param directory is replaced */
export function saveStory({ server, story }: StoryServer, directory: string): void {
  server.store.apiKeys.flushUses();
  const image = server.image();
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  cpSync(image.directory, join(directory, "data"), { recursive: true });
  writeFileSync(join(directory, DATABASE), image.database);
  writeFileSync(join(directory, KEYS), JSON.stringify({ now: story.now, keys: [...story.keys] }));
}

/** Starts a server from a saved story, in a second; null if there is none. */
export async function startSavedStory(directory: string): Promise<StoryServer | null> {
  if (!existsSync(join(directory, KEYS))) return null;
  const { now, keys } = JSON.parse(readFileSync(join(directory, KEYS), "utf8"));
  const from = { database: readFileSync(join(directory, DATABASE)), directory: join(directory, "data"), at: now };
  const server = await startServer({ newId: countingIds(), sender: DEMO_SENDER, from });
  return { server, story: { now, keys: new Map(keys) } };
}
