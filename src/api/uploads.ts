/** What policies, custom attestation types and flow templates have in common: an uploaded file, and its versions. */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { CONFIGURATION_BOUNDS } from "../http/operation.ts";
import type { FormBody } from "../http/operation.ts";

/** A form with a JSON part and a configuration file that is held in memory. */
export const configurationForm = <T extends TSchema>({
  file,
  ...form
}: Pick<FormBody<T>, "component" | "part" | "schema"> & { file: { part: string; description: string } }) =>
  ({ ...form, kind: "form", bounds: CONFIGURATION_BOUNDS, file: { ...file, kind: "memory" } }) satisfies FormBody<T>;

/** The fields that every version of an uploaded file has. */
export const versionFields = {
  version: Type.Integer({ description: "1 for the first version" }),
  timestamp: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
};
