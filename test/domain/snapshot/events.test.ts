import { suite } from "uvu";
import * as assert from "uvu/assert";
import { describeEvent, kindOf } from "../../../src/domain/snapshot/events.ts";

const test = suite("domain/snapshot/events");

for (const [annotation, was, now, kind, text] of [
  ["started-compliant", 0, 1, "started", "1 instance started running (from 0 to 1)"],
  ["started-non-compliant", 0, 3, "started", "3 instances started running (from 0 to 3)"],
  ["started-unknown", 0, 2, "started", "2 instances started running (from 0 to 2)"],
  ["exited", 1, 0, "exited", "1 instance stopped running (from 1 to 0)"],
  ["exited", 2, 0, "exited", "2 instances stopped running (from 2 to 0)"],
  ["became-compliant", 1, 1, "changed", "1 instance changed"],
  ["became-non-compliant", 1, 2, "changed", "2 instances changed"],
  ["updated-provenance", 3, 3, "changed", "3 instances changed"],
  // Annotations of old data.
  ["started", 0, 1, "started", "1 instance started running (from 0 to 1)"],
  ["scaled", 1, 4, "changed", "4 instances changed"],
  ["changed", 1, 1, "changed", "1 instance changed"],
] as const)
  test(`${annotation} from ${was} to ${now}`, () => {
    assert.is(kindOf(annotation), kind);
    assert.is(describeEvent({ annotation, was, now }), text);
  });

test.run();
