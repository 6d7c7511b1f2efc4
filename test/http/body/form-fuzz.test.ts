/**
 * A small form is cut into its parts, any other goes through multer: of thousands of drawn forms, both ways read the
 * same and refuse the same. `make fuzz-forms` draws millions.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compareParsers, drawForm } from "./form-fuzz.ts";

const test = suite("http/body/form-fuzz");
const SEED = 20_261_123;
const FORMS = 3_000;
/** Refusals are compared too, for every fourth form. */
const ALL_EVERY = 4;

test("both ways to read a form accept the same parts and refuse for the same reasons", async () => {
  const found = { cut: 0, accepted: 0, refused: 0 };
  for (let number = 0; number < FORMS; number += 1) {
    const { isPlain, isAccepted } = await compareParsers(drawForm(SEED, number), { all: number % ALL_EVERY === 0 });
    if (isPlain) found.cut += 1;
    if (isAccepted === true) found.accepted += 1;
    if (isAccepted === false) found.refused += 1;
  }
  for (const [what, times] of Object.entries(found)) assert.ok(times > FORMS / 20, `${what}: ${times} of ${FORMS}`);
});

test.run();
