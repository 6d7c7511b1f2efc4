/**
 * A fast part of the attack list: each kind of body, refused and accepted. The whole list, and the run in 512 MB of
 * memory, are parts of `make crash`.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { attackedServer } from "./attacked.ts";
import { ATTACKS } from "./index.ts";
import { measureAttack } from "./loop-delay.ts";

const test = suite("attacks/attacks");
const attacked = attackedServer(test);

const QUICK = [
  "27 MB of {} in the list of a report",
  "1,490,000 keys in one object of a report",
  "27 MB of {} in the name of a flow",
  "2,200,000 tag keys",
  "9.9 MB of {} in the JSON part of a form",
  "8 MB of nested [ in a report",
  "8 MB of nested [ in user data",
  "31 MB of user data of an artifact",
  "user data of 190,000 values, each object with a key of its own",
  "data of a custom type with 95,000 keys",
  "data of a decision as a text that holds 3.9 MB of {}",
  "issues with 190,000 values of their own",
];

for (const name of QUICK)
  test(`${name}: gets the expected response and does not block the server`, async () => {
    const attack = ATTACKS.find((one) => one.name === name);
    assert.ok(attack, `there is no attack called ${name}`);
    const { problems } = await measureAttack(attacked.server, attacked.world, attack);
    assert.equal(problems, []);
  });

test("names of attacks are unique", () => {
  assert.is(new Set(ATTACKS.map(({ name }) => name)).size, ATTACKS.length);
});

test.run();
