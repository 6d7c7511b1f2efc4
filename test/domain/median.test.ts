import { suite } from "uvu";
import * as assert from "uvu/assert";
import { medianOf } from "../../src/domain/median.ts";

const test = suite("domain/median");

test("is the middle value, or the mean of the middle two", () => {
  assert.is(medianOf([]), null);
  assert.is(medianOf([7]), 7);
  assert.is(medianOf([10, 2]), 6);
  assert.is(medianOf([10, 9, 100]), 10);
  assert.is(medianOf([1, 2, 30, 400]), 16);
});

test("does not sort the list that it is given", () => {
  const values = [3, 1, 2];
  medianOf(values);
  assert.equal(values, [3, 1, 2]);
});

test.run();
