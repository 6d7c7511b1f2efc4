/** The types of attestations that the server defines, and the shapes of their `attestation_data`. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { AppError, invalid } from "../../errors.ts";
import { RECORD_BOUNDS } from "../../http/operation.ts";
import { Maybe } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import { Fingerprint, MAX_FREE_FORM_BYTES, Text, requireWithinBytes } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import type { ReadingContext } from "../context.ts";
import { readNestedJson } from "../nested-json.ts";

const OPEN = { additionalProperties: true };

/** Further keys of a decision are custom and are stored (semantics 7.2). */
export const DecisionData = Type.Object(
  { is_compliant: Type.Boolean({ description: "Whether the control is satisfied" }) },
  OPEN,
);

/** What a client read from an SBOM (newer-clients 2). Further keys are stored, in every object. */
export const SbomData = Type.Object(
  {
    format: Type.String({
      minLength: 1,
      maxLength: MAX_NAME_CHARS,
      description: "Format and version, such as `cyclonedx-1.6` or `spdx-2.3`",
    }),
    original_fingerprint: Type.String({
      ...Fingerprint,
      description: "SHA-256 of the SBOM; an attachment must have it",
    }),
    document: Maybe(
      Type.Object(
        {
          created_at: Maybe(Text),
          tools: Maybe(Type.Array(Text)),
          subject: Maybe(
            Type.Object({ name: Maybe(Text), version: Maybe(Text), purl: Maybe(Text), sha256: Maybe(Text) }, OPEN),
          ),
          package_count: Maybe(Type.Integer({ minimum: 0 })),
        },
        OPEN,
      ),
    ),
  },
  OPEN,
);

const SHAPES = { decision: DecisionData, sbom: SbomData };

export type SystemType = keyof typeof SHAPES;
export const SYSTEM_TYPES = Object.keys(SHAPES) as SystemType[];

/** The types, each with the shape of its data in every version, oldest first. */
export const SYSTEM_TYPE_VERSIONS = Object.entries(SHAPES).map(([name, schema]) => ({
  name,
  versions: [{ version: 1, schema }],
}));

/** The data of a report; `fromText`: as it was sent, if that was in a text. */
export type SystemData = { fromText: { asSent: unknown } | null } & (
  | { type: "decision"; data: Static<typeof DecisionData> }
  | { type: "sbom"; data: Static<typeof SbomData> }
);

/**
 * Parses the data of a type, sent as a value or as text.
 * @throws AppError 400 with the path below `attestation_data` (operations 6)
 */
export async function readSystemData(context: ReadingContext, type: SystemType, given: unknown): Promise<SystemData> {
  try {
    const nested = { field: "", what: "The JSON in 'attestation_data'", bounds: RECORD_BOUNDS, asText: false };
    const read = typeof given === "string" ? await readNestedJson(context, given, nested) : null;
    const data = read === null ? given : read.value;
    const problems = validate(SHAPES[type], data, { mode: "plain", root: "" });
    if (problems) throw invalid(problems);
    requireWithinBytes("attestation_data", data, MAX_FREE_FORM_BYTES);
    return { type, data, fromText: read } as SystemData;
  } catch (error) {
    if (!(error instanceof AppError) || !error.fields) throw error;
    // A problem of the data as a whole has an empty path.
    const below = (path: string): string => ["attestation_data", path].filter(Boolean).join(".");
    throw invalid(Object.fromEntries(Object.entries(error.fields).map(([path, text]) => [below(path), text])));
  }
}
