/**
 * The story that screenshots and tests of pages start from: the company of the demonstration (src/demo), the
 * organization `edge` with everything that is hard to show, and `fresh`, which has nothing yet.
 */
import { createHash } from "node:crypto";
import { ADMIN, foundOrganization } from "../../src/demo/acme/people.ts";
import { calendarUntil, createTeller, tell } from "../../src/demo/steps.ts";
import { storyOfAcme } from "../../src/demo/story.ts";
import type { TestServer } from "../given.ts";
import { setPassword } from "../web/browser.ts";
import { EDGE, edge, manyArtifacts } from "./edge.ts";

/** An organization without anything but its administrator. */
export const FRESH = "fresh";

/** 2026-11-20T11:24:00Z, a Friday: the moment at which the story ends unless another one is given. */
const STORY_NOW = Date.UTC(2026, 10, 20, 11, 24) / 1000;

export type StoryOptions = {
  /** Epoch seconds at which the story ends. */
  now?: number;
  /** Adds 10,000 artifacts to `edge`, which takes longer than all the rest. */
  large?: boolean;
  /** Grows with the keys of everybody who acts, by name. */
  keys?: Map<string, string>;
};
/** @property keys everybody who acts, by name */
export type Story = { now: number; keys: ReadonlyMap<string, string> };

/**
 * Tells the story on an empty server, through its operations, and leaves the server's clock at the end. All its users
 * can sign in with the password of test/web/browser.ts.
 */
export async function seedStory(
  server: TestServer,
  { now = STORY_NOW, large = false, keys }: StoryOptions = {},
): Promise<Story> {
  const teller = createTeller(server, keys);
  const calendar = calendarUntil(now);
  await tell(teller, [
    ...storyOfAcme(calendar),
    ...edge(calendar),
    { at: calendar.time("1d 10:00"), make: () => foundOrganization(teller, FRESH) },
    ...(large ? [{ at: calendar.time("1d 12:00"), make: manyArtifacts }] : []),
  ]);
  for (const { name } of server.store.users.list()) await setPassword(server, name);
  server.clock.at = now;
  return { now, keys: teller.keys };
}

/** Public ids of the usual form, the same in every run: from the time and a count. */
export function countingIds(): (now: number) => string {
  let count = 0;
  return (now) => {
    const time = Math.floor(now * 1000)
      .toString(16)
      .padStart(12, "0");
    const rest = createHash("sha256")
      .update(`id ${(count += 1)}`)
      .digest("hex");
    return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(0, 3)}-8${rest.slice(3, 6)}-${rest.slice(6, 14)}`;
  };
}

export { ADMIN, EDGE };
