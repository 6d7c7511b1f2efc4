/** What goes out and comes in: actions and their targets, warnings of keys that expire, a webhook of SonarQube. */
import { warnOfExpiringKeys } from "../../notifications/key-expiry-warnings.ts";
import { SERVER_URL } from "../steps.ts";
import type { Calendar, Step } from "../steps.ts";
import { ADMIN, ORG } from "./people.ts";

/** A receiver that refuses every message. */
export const FAILING_HOST = "pager.acme.example";
const webhook = (url: string) => ({ type: "WEBHOOK", webhook: url, payload_version: "1.0" });

const ENVIRONMENT_ACTIONS = [
  {
    name: "page-security-duty",
    environments: ["production-eu", "k8s-prod"],
    triggers: ["ON_NON_COMPLIANT_ENV", "ON_COMPLIANT_ENV"],
    targets: [webhook(`https://${FAILING_HOST}/assay`), { type: "EMAIL", emails: ["security-duty@acme.example"] }],
  },
  {
    name: "tell-deployments",
    environments: ["production-eu"],
    triggers: ["ON_STARTED_ARTIFACT", "ON_EXITED_ARTIFACT"],
    targets: [{ type: "SLACK", webhook: "https://chat.acme.example/hooks/deployments" }],
  },
  {
    name: "record-exceptions",
    environments: ["production-eu", "k8s-prod", "batch-settlement"],
    triggers: ["ON_ALLOWED_ARTIFACT"],
    targets: [webhook("https://grc.acme.example/hooks/assay")],
  },
];

export const actions = ({ time }: Calendar): Step[] => [
  ...ENVIRONMENT_ACTIONS.map((action, index) => ({
    at: time("50d 15:00") + index * 60,
    make: ({ send }: Parameters<Step["make"]>[0]) =>
      send("PUT", `/actions/${ORG}/environments`, { by: ADMIN, body: { type: "env", ...action } }),
  })),
  {
    at: time("50d 15:10"),
    make: ({ send }) =>
      send("PUT", `/actions/${ORG}/flows`, {
        by: ADMIN,
        body: {
          type: "flow",
          name: "welcome-trails",
          flows: ["backend-api", "web-checkout"],
          triggers: ["ON_STARTED_TRAIL"],
          targets: [{ type: "SLACK", webhook: "https://chat.acme.example/hooks/releases" }],
        },
      }),
  },
  {
    at: time("50d 15:15"),
    make: ({ send }) => send("PUT", `/inbound-webhooks/${ORG}/sonar`, { by: ADMIN, body: {} }),
  },
  {
    at: time("50d 15:20"),
    make: ({ send }) =>
      send("PUT", `/notification-config/${ORG}/api_key_expiry`, {
        by: ADMIN,
        body: { targets: [{ type: "EMAIL", emails: ["platform@acme.example"] }] },
      }),
  },
  {
    // What a server does every hour: the key of a reporter ends in two weeks then.
    at: time("7d 06:00"),
    make: ({ server: { store, writer, clock } }) =>
      warnOfExpiringKeys({ store, writer, now: () => clock.at, url: () => SERVER_URL }),
  },
];
