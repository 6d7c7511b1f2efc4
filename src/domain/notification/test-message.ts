/** The message that checks whether a target of an action receives messages. It says everywhere that it is a test. */
import { renderMessage } from "./chat-and-mail.ts";
import type { NotificationMessage } from "./chat-and-mail.ts";
import { PAYLOAD_VERSION } from "./targets.ts";
import { timestampOf } from "./webhook.ts";
import type { Payload } from "./webhook.ts";

/** `event_type` of a test, in the place of a trigger without `ON_`. */
export const TEST_EVENT = "TEST";

/** A test of an action; `by` is the display name of the person or service account that asked for it. */
type ActionTest = { org: string; action: string; number: number; by: string };

const describeTest = ({ org, action, number, by }: ActionTest): string =>
  `Test of action ${action} (number ${number}) of organization ${org}, sent by ${by}: nothing has happened`;

/** The WEBHOOK payload of a test; every scalar is a string, as in the payloads of events. `at` in epoch seconds. */
export const buildTestPayload = (test: ActionTest, at: number): Payload => ({
  version: PAYLOAD_VERSION,
  timestamp: timestampOf(at),
  org: test.org,
  event_type: TEST_EVENT,
  description: describeTest(test),
  action: { name: test.action, number: String(test.number) },
});

/** @param url the page of the server */
export const composeTestMessage = (test: ActionTest, url: string): NotificationMessage =>
  renderMessage({
    heading: `Test of action ${test.action}`,
    lines: [describeTest(test)],
    link: { url, text: "Open the server" },
    footer: `Sent by action ${test.action} (number ${test.number}) of organization ${test.org}.`,
  });
