/** Attestations of types that the server defines: decisions on controls (semantics 7.2), SBOMs (newer-clients 2). */
import { Type } from "typebox";
import { evaluateDecision } from "../../domain/attestation/verdicts.ts";
import { storedLabelOf } from "../../domain/attestation/kinds.ts";
import { evaluateSbom } from "../../domain/attestation/verdicts.ts";
import { excerpt } from "../../domain/text/excerpt.ts";
import { invalid } from "../../errors.ts";
import type { Kept } from "../../http/body/read-json.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { Closed, OneOf, PublishedAs, named } from "../../http/schema.ts";
import { largeRead } from "../context.ts";
import { MAX_FREE_FORM_BYTES } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { COMMON_FIELDS } from "./kind.ts";
import { attestationOperation } from "./report.ts";
import { DecisionData, SYSTEM_TYPES, SYSTEM_TYPE_VERSIONS, SbomData, readSystemData } from "./system-data.ts";
import type { SystemData, SystemType } from "./system-data.ts";

const PAYLOAD = {
  type_name: OneOf(SYSTEM_TYPES),
  control: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_NAME_CHARS,
      description: "Identifier of the control, which does not have to exist. Of a decision: required; else refused",
    }),
  ),
  attestation_data: PublishedAs(
    Type.Union(
      [
        named("DecisionData", DecisionData),
        named("SbomData", SbomData),
        Type.String({ description: "The same as JSON text" }),
      ],
      { "x-max-bytes": MAX_FREE_FORM_BYTES, description: "The data of the type" },
    ),
    Type.Unsafe<Record<string, unknown> | unknown[] | string>({
      anyOf: [{ type: "object" }, { type: "array", items: {} }, { type: "string" }],
      "x-max-bytes": MAX_FREE_FORM_BYTES,
    }),
  ),
};

/** @throws AppError 400 for a decision without a control, and for another type with one */
function requireControl({ type_name: type, control }: { type_name: SystemType; control?: string }): void {
  if (type === "decision" && control === undefined) throw invalid({ control: "Field required" });
  if (type !== "decision" && control !== undefined)
    throw invalid({
      control: `Input is for type 'decision' only, and the type is '${type}' [input: ${excerpt(control)}]`,
    });
}

/**
 * Clients upload the SBOM as it is, and people compare its SHA-256.
 * @throws AppError 400 that names both digests
 */
function requireOriginal({ original_fingerprint: stated }: { original_fingerprint: string }, file: UploadedFile): void {
  if (file.digest === stated) return;
  const problem = `Input should be the SHA-256 of the attachment, '${file.digest}' [input: ${stated}]`;
  throw invalid({ "attestation_data.original_fingerprint": problem });
}

const KEEPS: Kept = {
  exact: ["user_data", "annotations", "external_urls", "repo_info"],
  counted: ["attestation_data"],
  others: true,
};

export const postSystem = attestationOperation({
  segment: "system",
  input: "SystemAttestationPostInput",
  form: "SystemAttestationForm",
  summary: "Report a decision on a control, or an SBOM",
  description:
    "A decision states whether a control is satisfied, for a trail or an artifact. It counts in its trail like any " +
    "other attestation, and in policies with a rule for the control. The record keeps the current version of the " +
    "control; an unknown control is accepted and has none. An SBOM is compliant, recorded as reported: nothing is " +
    "checked but that an attachment has the SHA-256 that the report states. Custom fields are stored.",
  payload: PAYLOAD,
  isOpen: true,
  // The data is needed as a value, because its members are evaluated.
  bounds: { ...RECORD_BOUNDS, asText: ["user_data"], keeps: KEEPS },
  async prepare(context, payload, file): Promise<SystemData> {
    requireControl(payload);
    const read = await readSystemData(context, payload.type_name, payload.attestation_data);
    if (read.type === "sbom" && file) requireOriginal(read.data, file);
    return read;
  },
  evaluate: ({ control = "" }, read) => (read.type === "sbom" ? evaluateSbom() : evaluateDecision(control, read.data)),
  label: ({ type_name }) => storedLabelOf(type_name),
  columns: ({ store, organization }, { control = null }) => ({
    control,
    control_version: control === null ? null : (store.controls.find(organization.id, control)?.version ?? null),
  }),
  facts({ attestation_data: given, control: _column, ...rest }, { fromText }) {
    const customFields = Object.entries(rest).filter(([name]) => !Object.hasOwn(COMMON_FIELDS, name));
    return { ...Object.fromEntries(customFields), attestation_data: fromText === null ? given : fromText.asSent };
  },
  example: {
    attestation_name: "review-board",
    type_name: "decision",
    control: "SDLC-7",
    attestation_data: { is_compliant: true },
  },
});

const SystemAttestationType = named(
  "SystemAttestationType",
  Closed({
    name: Type.String(),
    versions: Type.Array(
      named(
        "SystemAttestationTypeVersion",
        Closed({
          version: Type.Integer(),
          schema: Type.Record(Type.String(), Type.Unknown(), { description: "JSON Schema of `attestation_data`" }),
        }),
      ),
    ),
  }),
);

export const listSystemAttestationTypes = largeRead({
  id: "list_system_attestation_types",
  method: "GET",
  path: "/attestations/system-attestation-types",
  tag: "Attestation",
  summary: "List the attestation types that the server defines",
  description: "Each type with the shape of its data in every version.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "The types", schema: Type.Array(SystemAttestationType) } },
  example: {},
  handle: () => ({ status: 200, body: SYSTEM_TYPE_VERSIONS }),
});
