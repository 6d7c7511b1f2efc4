/** The story of the company acme: two months of three flows and five environments, as one list of steps. */
import { actions } from "./acme/actions.ts";
import { environments } from "./acme/environments.ts";
import { flows } from "./acme/flows.ts";
import { people } from "./acme/people.ts";
import { policies } from "./acme/policies.ts";
import { releases } from "./acme/releases.ts";
import type { Calendar, Step } from "./steps.ts";

export const storyOfAcme = (calendar: Calendar): Step[] =>
  [people, policies, flows, environments, releases, actions].flatMap((part) => part(calendar));
