/** What policies, custom attestation types and flow templates have in common: an uploaded file, and its versions. */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { MAX_DIAGNOSTICS } from "../domain/policy/diagnostics.ts";
import { AppError } from "../errors.ts";
import { CONFIGURATION_BOUNDS } from "../http/operation.ts";
import type { FormBody } from "../http/operation.ts";
import { Closed, named } from "../http/schema.ts";
import type { ReadingContext } from "./context.ts";

/** A form with a JSON part and a configuration file that is held in memory. */
export const configurationForm = <T extends TSchema>({
  file,
  ...form
}: Pick<FormBody<T>, "component" | "part" | "schema"> & { file: { part: string; description: string } }) =>
  ({ ...form, kind: "form", bounds: CONFIGURATION_BOUNDS, file: { ...file, kind: "memory" } }) satisfies FormBody<T>;

/** UTF-16 code units of a previewed text: fewer than a file may have, because people wait while they type. */
export const MAX_PREVIEWED_CHARS = 1_000_000;

/** A mistake in a text. */
export const TextProblem = named(
  "TextProblem",
  Closed({
    line: Type.Integer({ description: "1 for the first line" }),
    column: Type.Integer({ description: "1 for the first column, in UTF-16 code units" }),
    path: Type.String({ description: "Dotted path of the value; empty for the text as a whole" }),
    message: Type.String(),
  }),
);

/** The field of a preview with what an upload accepts and the organization has nothing for. */
export const TextWarnings = Type.Array(TextProblem, {
  maxItems: MAX_DIAGNOSTICS,
  description:
    "What an upload accepts and is probably a mistake, by position: names that the organization does not have, each " +
    "with what to do. At most 100; empty for an invalid text",
});

/** What a reader of an uploaded text found: its result, or the mistakes for which an upload would be refused. */
type Checked<T> = { value: T; problems: null } | { value: null; problems: readonly Problem[] };
type Problem = NonNullable<AppError["problems"]>[number];

/**
 * Runs the reading of a text whose upload would fail.
 * @throws AppError that is not about mistakes in the text, such as too_large
 */
export async function checkText<T>(read: () => Promise<T>): Promise<Checked<T>> {
  try {
    return { value: await read(), problems: null };
  } catch (error) {
    if (error instanceof AppError && error.problems) return { value: null, problems: error.problems };
    throw error;
  }
}

/** Whose turn it is in the thread of previews: organizations take turns. */
export const previewLane = ({ organization }: Pick<ReadingContext, "organization">): string =>
  `previews of ${organization.id}`;

/** The fields that every version of an uploaded file has. */
export const versionFields = {
  version: Type.Integer({ description: "1 for the first version" }),
  timestamp: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
};
