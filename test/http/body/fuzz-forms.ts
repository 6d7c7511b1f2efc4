/**
 * `make fuzz-forms SEED=n COUNT=n`: compares the two ways to read a form on any number of drawn forms, and fails with
 * the bytes of one that is never answered.
 */
import { compareParsers, drawForm } from "./form-fuzz.ts";

const seed = Number(process.env["SEED"] || 1);
const count = Number(process.env["COUNT"] || 1_000_000);
/** Refusals are compared too, for every twentieth form. */
const ALL_EVERY = 20;

const found = { plain: 0, accepted: 0, refused: 0 };
for (let number = 0; number < count; number += 1) {
  try {
    const { isPlain, isAccepted } = await compareParsers(drawForm(seed, number), { all: number % ALL_EVERY === 0 });
    if (isPlain) found.plain += 1;
    if (isAccepted !== null) found[isAccepted ? "accepted" : "refused"] += 1;
  } catch (error) {
    const { contentType, body } = drawForm(seed, number);
    console.error(`seed ${seed}, form ${number}: ${contentType}\n${JSON.stringify(body.toString("latin1"))}`);
    throw error;
  }
}
console.log(
  `${count} forms of seed ${seed}: ${found.plain} were cut, ${found.accepted} accepted and ${found.refused} refused ` +
    "by both parsers alike, none was left without an answer",
);
