/** The fields of a submitted form. */
import type Koa from "koa";
import { badRequest } from "../../errors.ts";
import { readSmallBody } from "../../http/body/body.ts";
import { parseIsoTime } from "../../domain/time.ts";
import type { BodyLimits } from "../../http/body/body.ts";

/** Bytes of a form: a text of the editor, with a few characters escaped. */
const MAX_FORM_BYTES = 2 << 20;
/** Names and values in a form. */
const MAX_FORM_FIELDS = 500;

export type Fields = {
  /** The first value of a field, line ends as \n; empty when the form does not have it. */
  text(name: string): string;
  /** As `text`, without spaces around it; null when nothing is left. */
  optional(name: string): string | null;
  /** Whether a checkbox is checked. */
  flag(name: string): boolean;
  /** All values of a field, without empty ones. */
  list(name: string): string[];
  /** The items of a field with one item a line, or separated by commas; without empty ones. */
  lines(name: string): string[];
  /** Epoch seconds of a field with a date or a time, in UTC; null when it is empty, NaN for another text. */
  time(name: string): number | null;
  /** All fields, for a form that waits for a sign-in. */
  entries(): [string, string][];
};

/** @throws AppError 400, 408, 413. */
export async function readPageFields(ctx: Koa.Context, limits: BodyLimits): Promise<Fields> {
  if (!ctx.is("application/x-www-form-urlencoded")) throw badRequest("This address only accepts the form of its page");
  const bytes = await readSmallBody(ctx, { ...limits, json: MAX_FORM_BYTES });
  const text = bytes?.toString("utf8") ?? "";
  if (text.split("&", MAX_FORM_FIELDS + 1).length > MAX_FORM_FIELDS)
    throw badRequest(`The form has more than ${MAX_FORM_FIELDS} fields`);
  return fieldsOf([...new URLSearchParams(text)]);
}

/** The fields of a form by their names and values. */
export function fieldsOf(entries: readonly (readonly [string, string])[]): Fields {
  const values = new Map<string, string[]>();
  for (const [name, value] of entries)
    values.set(name, [...(values.get(name) ?? []), value.toWellFormed().replace(/\r\n?/g, "\n")]);
  const text = (name: string): string => values.get(name)?.[0] ?? "";
  return {
    text,
    optional: (name) => text(name).trim() || null,
    flag: (name) => text(name) !== "",
    list: (name) => (values.get(name) ?? []).filter((value) => value !== ""),
    lines: (name) =>
      text(name)
        .split(/[\n,]/)
        .map((line) => line.trim())
        .filter((line) => line !== ""),
    time: (name) => parseTime(text(name).trim()),
    entries: () => [...values].flatMap(([name, all]) => all.map((value): [string, string] => [name, value])),
  };
}

const parseTime = (text: string): number | null => (text === "" ? null : (parseIsoTime(text) ?? Number.NaN));
