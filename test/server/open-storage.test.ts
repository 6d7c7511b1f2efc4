/** The stages of a start: what a failure closes, and in which order. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLogger } from "../../src/log.ts";
import { createClosers, openStage } from "../../src/server/open-storage.ts";

const test = suite("server/open-storage");

function given() {
  const lines: string[] = [];
  const closed: string[] = [];
  const logger = createLogger({ level: "info", destination: { write: (line: string) => void lines.push(line) } });
  return { lines, closed, logger };
}

test("closes the parts of a stage in reverse order, once, with the reason", async () => {
  const { closed, logger } = given();
  const stage = await openStage(logger, async (onClose) => {
    onClose((reason) => closed.push(`first: ${reason}`));
    onClose(async (reason) => closed.push(`second: ${reason}`));
    return { part: 7 };
  });
  assert.equal({ part: stage.part, closed: [...closed] }, { part: 7, closed: [] });
  await stage.close("stop");
  await stage.close("stop");
  assert.equal(closed, ["second: stop", "first: stop"]);
});

test("a stage that fails closes the parts that it has opened, and rejects with its own error", async () => {
  const { closed, lines, logger } = given();
  const opening = openStage(logger, async (onClose) => {
    onClose((reason) => closed.push(`opened: ${reason}`));
    onClose(() => {
      throw new Error("cannot close");
    });
    throw new Error("cannot open");
  });
  const error = await opening.then(
    () => null,
    (reason: Error) => reason,
  );
  assert.is(error?.message, "cannot open");
  assert.equal(closed, ["opened: failed start"]);
  assert.equal(
    lines.map((line) => (JSON.parse(line) as { msg: string; err: { message: string } }).err.message),
    ["cannot close"],
  );
});

test("runs all closers even if one fails, then rejects with the first error", async () => {
  const { closed } = given();
  const closers = createClosers();
  closers.add(() => closed.push("last"));
  for (const name of ["second", "first"])
    closers.add(() => {
      closed.push(name);
      throw new Error(name);
    });
  const error = await closers.close("stop").then(
    () => null,
    (reason: Error) => reason,
  );
  assert.equal({ error: error?.message, closed }, { error: "first", closed: ["first", "second", "last"] });
});

test.run();
