/** What the tabs of a control share. */
import type { getControl } from "../../../api/policies/controls.ts";
import { AppError, invalid } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { inWords } from "../../page/field-words.ts";

export type Control = AnswerOf<typeof getControl>;

/**
 * Calls an operation that takes links, and puts the messages about single links at the field with all of them.
 * @throws AppError as the operation does
 */
export async function placingLinks<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof AppError) || error.fields === null) throw error;
    const own = Object.entries(error.fields).filter(([name]) => !name.startsWith("links."));
    const ofLinks = Object.entries(error.fields).filter(([name]) => name.startsWith("links."));
    if (ofLinks.length === 0) throw error;
    const text = ofLinks.map(([name, message]) => `${name.slice("links.".length)}: ${inWords(message)}`).join(" ");
    throw invalid({ ...Object.fromEntries(own), links: text });
  }
}
