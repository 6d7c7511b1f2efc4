/** The parts of a form: how large they may be, which is which, and how the file is described. */
import { fileTooLarge, tooLarge } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import type { FormBody } from "../operation.ts";
import type { BodyLimits } from "./body.ts";
import type { PlainPart } from "./plain-form.ts";
import { maxBodyBytes } from "./read-json.ts";

/** Allowance for boundaries and part headers, on top of the parts themselves. */
const FORM_OVERHEAD_BYTES = 65_536;

/** Bytes of the file. */
const maxFileBytes = (form: FormBody, limits: BodyLimits): number =>
  form.file === null ? 0 : form.file.kind === "memory" ? limits.document : limits.evidence;

/** Bytes of the JSON part. */
export const maxJsonBytes = (form: FormBody, limits: BodyLimits): number =>
  maxBodyBytes(form.bounds, limits.form, limits);

/** Bytes of a whole form. */
export const maxFormBytes = (form: FormBody, limits: BodyLimits): number =>
  maxFileBytes(form, limits) + maxJsonBytes(form, limits) + FORM_OVERHEAD_BYTES;

/** Whether evidence of this size, in bytes, is stored in the database. */
export const isSmallEvidence = (size: number, { smallEvidence }: BodyLimits): boolean =>
  smallEvidence > 0 && size <= smallEvidence;

/** 413 for a whole form: if it has a file, the file is what makes it large. */
export const formTooLarge = (form: FormBody, limits: BodyLimits): AppError =>
  form.file ? fileTooLarge(maxFileBytes(form, limits)) : tooLarge("Request body size", maxJsonBytes(form, limits));

/** A file as responses show it. It is never opened by this name. */
export const describeFile = (name: string, type: string): { filename: string; contentType: string } => ({
  filename: safeFilename(name),
  contentType: safeContentType(type),
});

/** The client's file name without directories, control characters and broken Unicode. */
function safeFilename(name: string): string {
  const base = name.toWellFormed().split(/[/\\]/).at(-1) ?? "";
  return (
    base
      .replace(/[\u0000-\u001f\u007f]/g, "")
      .slice(0, 255)
      .toWellFormed() || "file"
  );
}

const safeContentType = (type: string): string =>
  /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/i.test(type) && type.length <= 100
    ? type.toLowerCase()
    : "application/octet-stream";

/** Which part is the JSON and which the file; null if the form is to be refused. */
export function assignParts(
  parts: readonly PlainPart[] | null,
  form: FormBody,
  limits: BodyLimits,
): { json: PlainPart; file: PlainPart | null } | null {
  if (parts === null) return null;
  const json = parts.find(({ name }) => name === form.part);
  if (json === undefined || json.bytes.length > maxJsonBytes(form, limits)) return null;
  if (parts.length === 1) return { json, file: null };
  if (parts.length > 2) return null;
  const file = parts.find(
    (part) => (part.name === form.file?.part || (form.file?.isAnyName && part !== json)) && part.filename !== null,
  );
  return file === undefined || file.bytes.length > maxFileBytes(form, limits) ? null : { json, file };
}
