import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  ENVIRONMENT_TRIGGERS,
  FLOW_TRIGGERS,
  eventTypeOf,
  findTransition,
  triggerOf,
} from "../../../src/domain/notification/triggers.ts";

const test = suite("domain/notification/triggers");

test("derives the event type from the trigger without its prefix", () => {
  assert.equal([...ENVIRONMENT_TRIGGERS, ...FLOW_TRIGGERS].map(eventTypeOf), [
    "STARTED_ARTIFACT",
    "EXITED_ARTIFACT",
    "SCALED_ARTIFACT",
    "ALLOWED_ARTIFACT",
    "ALLOWLIST_EXPIRY",
    "NON_COMPLIANT_ENV",
    "COMPLIANT_ENV",
    "DAILY_CHANGES",
    "STARTED_TRAIL",
    "ATTESTED_PROVENANCE",
    "ATTESTATION",
    "APPROVAL",
    "RELEASE",
  ]);
});

test("maps annotations to triggers", () => {
  const table: Record<string, string> = {
    "started-compliant": "ON_STARTED_ARTIFACT",
    "started-non-compliant": "ON_STARTED_ARTIFACT",
    "started-unknown": "ON_STARTED_ARTIFACT",
    exited: "ON_EXITED_ARTIFACT",
    "became-compliant": "ON_SCALED_ARTIFACT",
    "became-non-compliant": "ON_SCALED_ARTIFACT",
    "updated-provenance": "ON_SCALED_ARTIFACT",
  };
  for (const [annotation, trigger] of Object.entries(table)) assert.is(triggerOf(annotation), trigger, annotation);
});

test("finds changes of an environment's verdict", () => {
  const table: [lastKnown: boolean | null, state: boolean | null, trigger: string | null][] = [
    [true, false, "ON_NON_COMPLIANT_ENV"],
    [null, false, "ON_NON_COMPLIANT_ENV"],
    [false, false, null],
    [false, true, "ON_COMPLIANT_ENV"],
    [null, true, null],
    [true, true, null],
    [true, null, null],
    [false, null, null],
    [null, null, null],
  ];
  for (const [lastKnown, state, trigger] of table)
    assert.is(findTransition({ lastKnown, verdict: state }), trigger, `${lastKnown} to ${state}`);
});

test.run();
