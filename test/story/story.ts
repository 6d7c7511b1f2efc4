/**
 * The story that screenshots, tests of pages and demonstrations start from: the company acme with two months of
 * history, the organization `edge` with everything that is hard to show, and `fresh`, which has nothing yet.
 */
import type { TestServer } from "../given.ts";
import { actions } from "./acme/actions.ts";
import { environments } from "./acme/environments.ts";
import { flows } from "./acme/flows.ts";
import { ADMIN, addMember, createOrganization, people } from "./acme/people.ts";
import { policies } from "./acme/policies.ts";
import { releases } from "./acme/releases.ts";
import { EDGE, edge, manyArtifacts } from "./edge.ts";
import { STORY_NOW, calendarUntil, createTeller, tell } from "./steps.ts";

/** An organization without anything but its administrator. */
export const FRESH = "fresh";

export type StoryOptions = {
  /** Epoch seconds at which the story ends. */
  now?: number;
  /** Adds 10,000 artifacts to `edge`, which takes longer than all the rest. */
  large?: boolean;
};
/** @property keys everybody who acts, by name */
export type Story = { now: number; keys: ReadonlyMap<string, string> };

/** Tells the story on an empty server, through its operations, and leaves the server's clock at the end. */
export async function seedStory(
  server: TestServer,
  { now = STORY_NOW, large = false }: StoryOptions = {},
): Promise<Story> {
  const teller = createTeller(server);
  const calendar = calendarUntil(now);
  await tell(teller, [
    ...[people, policies, flows, environments, releases, actions, edge].flatMap((part) => part(calendar)),
    {
      at: calendar.time("1d 10:00"),
      async make() {
        createOrganization(teller, FRESH);
        await addMember(teller, { org: FRESH, name: ADMIN, displayName: "", role: "admin" });
      },
    },
    ...(large ? [{ at: calendar.time("1d 12:00"), make: manyArtifacts }] : []),
  ]);
  server.clock.at = now;
  return { now, keys: teller.keys };
}

export { ADMIN, EDGE };
