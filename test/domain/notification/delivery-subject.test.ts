/** What lists of messages call a message. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { deliverySubject, placeOf, readDeliverySubject } from "../../../src/domain/notification/delivery-subject.ts";
import { createEnvironmentEvent, createFlowEvent } from "../../../src/domain/notification/event.ts";

const test = suite("domain/notification/delivery-subject");

test("names action, event and place, and is read back", () => {
  const subject = deliverySubject("on/duty", "NON_COMPLIANT_ENV", ["prod #7"]);
  assert.is(subject, "on/duty: NON_COMPLIANT_ENV in prod #7");
  assert.equal(readDeliverySubject(subject), { event: "NON_COMPLIANT_ENV", place: "prod #7" });
});

test("names three places, and the number of the others", () => {
  const subject = deliverySubject("daily", "DAILY_CHANGES", ["a", "b", "c", "d", "e"]);
  assert.is(subject, "daily: DAILY_CHANGES in a, b, c and 2 more");
  assert.is(readDeliverySubject(subject).place, "a, b, c and 2 more");
});

test("reads a subject without a place, of a test or of version 0.1", () => {
  assert.equal(readDeliverySubject(deliverySubject("daily", "TEST", [])), { event: "TEST", place: null });
  assert.equal(readDeliverySubject("daily: STARTED_ARTIFACT"), { event: "STARTED_ARTIFACT", place: null });
  assert.equal(readDeliverySubject("Keys of acme"), { event: "Keys of acme", place: null });
  assert.is(readDeliverySubject("daily: ALLOWED_ARTIFACT in TEST").event, "ALLOWED_ARTIFACT", "an environment TEST");
});

test("the place is the environment with its snapshot, or the flow with its trail", () => {
  const inEnvironment = (index: number) =>
    createEnvironmentEvent("ON_COMPLIANT_ENV", {
      at: 0,
      snapshot: { org: "acme", environment: "prod", index, compliant: true },
      nonCompliant: 0,
      failing: [],
    });
  assert.equal(
    [0, 7].map((index) => placeOf(inEnvironment(index))),
    ["prod", "prod #7"],
  );
  const flow = { org: "acme", flow: "payments", artifact: null, attestation: null };
  const inFlow = (trail: { name: string; state: string } | null) =>
    createFlowEvent("ON_STARTED_TRAIL", { ...flow, trail }, { at: 0, by: "ann" });
  assert.is(placeOf(inFlow({ name: "release-1", state: "COMPLIANT" })), "payments/release-1");
  assert.is(placeOf(inFlow(null)), "payments");
});

test.run();
