/** Prints the result of a command: JSON for scripts, text for people. */
import type { Args } from "./args.ts";
import { EXIT } from "./command.ts";
import type { Io } from "./command.ts";

type Result = {
  json: unknown;
  /** For people, on stdout; ends in a line feed. */
  text: string;
  /** For people, on stderr, such as what to do next; empty for nothing. */
  notice?: string;
};

/** Prints a result, and returns the exit code of success. */
export function printResult(io: Io, args: Args, { json, text, notice = "" }: Result): number {
  if (args.switches.has("json")) io.stdout(`${JSON.stringify(json)}\n`);
  else {
    if (notice !== "") io.stderr(notice);
    if (text !== "") io.stdout(text);
  }
  return EXIT.done;
}

/** The value of a text option; null if it is not set. */
export const optionOf = ({ texts }: Args, name: string): string | null => texts.get(name)?.[0] ?? null;

export const countOf = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
