import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createEvidenceProbe } from "../../src/server/evidence-probe.ts";

const test = suite("server/evidence-probe");

test("says what the latest probe found, without waiting, and probes again after half a minute", async () => {
  let now = 0;
  let probes = 0;
  let outcome = Promise.reject(new Error("AccessDenied")) as Promise<void>;
  outcome.catch(() => undefined);
  const isReachable = createEvidenceProbe(
    {
      probe() {
        probes += 1;
        return outcome;
      },
    },
    () => now,
  );
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  assert.is(isReachable(), null);
  await settle();
  now = 29_999;
  assert.equal([isReachable(), probes], [false, 1]);
  outcome = Promise.resolve();
  now = 30_000;
  assert.equal([isReachable(), probes], [false, 2]);
  await settle();
  assert.equal([isReachable(), probes], [true, 2]);
});

test.run();
