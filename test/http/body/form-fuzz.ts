/**
 * Forms that are nearly right, and a comparison of the two ways to read one: collected and cut (plain-form.ts), and
 * through multer while it arrives. A form is drawn from its seed and number alone.
 */
import * as assert from "uvu/assert";
import { hash } from "node:crypto";
import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import type Koa from "koa";
import { AppError } from "../../../src/errors.ts";
import { readForm } from "../../../src/http/body/multipart.ts";
import type { EvidenceStage } from "../../../src/http/body/evidence-stage.ts";
import { parsePlainForm } from "../../../src/http/body/plain-form.ts";
import { RECORD_BOUNDS } from "../../../src/http/body/read-json.ts";
import type { FormBody } from "../../../src/http/operation.ts";

export type DrawnForm = { contentType: string; body: Buffer; form: FormBody; cutAt: number };

const LIMITS = { json: 4_000, form: 120, document: 90, evidence: 100, smallEvidence: 50, stallTimeoutS: 20 };
const formWith = (file: FormBody["file"]): FormBody =>
  ({ kind: "form", component: "Form", part: "data_json", schema: {}, bounds: RECORD_BOUNDS, file }) as FormBody;
const FORMS = [
  formWith({ part: "file", description: "", kind: "evidence" }),
  formWith({ part: "file", description: "", kind: "memory" }),
  formWith(null),
];

/** Whole numbers below `below`. */
type Draw = (below: number) => number;

/** A sequence of its own for each number (SplitMix32). */
function randomOf(seed: number, number: number): Draw {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b)) >>> 0;
  return (below) => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % below;
  };
}

const pick = <T>(draw: Draw, from: readonly T[]): T => from[draw(from.length)] as T;
/** Usually the first. */
const usually = (draw: Draw, [first = "", ...others]: readonly string[]): string =>
  draw(25) > 0 ? first : pick(draw, others);

const BOUNDARIES = [
  "b",
  "----form-7MA4YWxk",
  "a'()+_,-./:=?",
  "--",
  "0",
  "x y",
  "b\\b",
  "é",
  "\r",
  'b"',
  "b".repeat(71),
];
const TEXTS = [
  "{}",
  "",
  '{"a":"b"}',
  "\ufeff{}",
  "é\ufffd",
  "x\r\n--b",
  "\r\n",
  "-",
  "--",
  "\r\n\r\n",
  "y".repeat(90),
  "y".repeat(91),
  "y".repeat(121),
  Buffer.from([0xff, 0xfe, 0]),
  Buffer.from([0xed, 0xa0, 0x80]),
];
const FILENAMES = [
  "a.txt",
  "",
  "é.txt",
  "a%22b%0D%0a.txt",
  "C:\\dir\\a",
  'a\\"b',
  "dir/",
  "..",
  ".",
  "a/../b",
  "/",
  "\u0001",
  "a;b",
  "%zz%",
  "x".repeat(300),
  "\xff",
];
const NAMES = ["data_json", "file", "", "__proto__", "data_json[a]", "n".repeat(101), "FILE", "data%5Fjson", "fil\xe9"];
const FILE_TYPES = [
  "application/octet-stream",
  "text/plain",
  "TEXT/Plain; charset=latin1",
  'a/b; c="d;e"',
  "a/b;",
  "a",
  "/",
  "a/b c",
  "text/plain;charset=utf-16le",
  "text/plain ; charset=x",
  'a/b; c="\\""',
];
const FIELD_TYPES = [
  "application/json",
  "application/json; charset=utf-8",
  'application/json;charset="UTF-8"',
  'application/json; charset="utf-8',
  "application/json; charset=latin1",
  "application/json; charset=utf-16le",
  "application/json; charset=nope",
  "text/plain; charset=",
  "application/octet-stream",
  "Application/Octet-Stream; charset=utf-8",
  "application/json; charset=utf-8; charset=latin1",
];
const OTHER_LINES = [
  "Content-Transfer-Encoding: base64",
  "X: y",
  "X:",
  "X:   ",
  " folded",
  "\tfolded",
  "X : y",
  ": y",
  "X: a\x00b",
  "X: a\x7fb",
  "X: \xff\xfe",
  "no colon",
  `X: ${"y".repeat(5_000)}`,
  `X: ${"y".repeat(17_000)}`,
  "Content-Disposition: attachment",
  "content-type: a/b",
  "X: a\rb",
  "X: a\nb",
  "X: --b",
];
/** Parts without anything but a header that is malformed, or does not end. */
const BARE_HEADERS = [
  "",
  "--",
  "-",
  "\r",
  "no colon",
  "no colon\r\n\r\n",
  ": y\r\n\r\nx\r\n",
  "\r\n",
  "X: y",
  "X: y\r\n",
  'Content-Disposition: form-data; name="file"; filename="a"\r\n',
  "Content-Disposition: form-data; name=data_json",
];
const LINE_ENDS = ["\r\n", "\n", "\r", "\r\n ", " \r\n", "", "\r\r\n", "\r\n\r\n"];

const bytesOf = (text: string | Buffer): Buffer => (typeof text === "string" ? Buffer.from(text) : text);
const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");

function dispositionOf(draw: Draw, name: string, filename: string | null): string {
  const type = usually(draw, ["form-data", "Form-Data", "attachment", "form-data ", ""]);
  const separator = usually(draw, ["; ", ";", " ; ", ";\t", ";;", ","]);
  const quote = usually(draw, ['"', "", "'"]);
  const nameKey = usually(draw, ["name", "NAME", "name*", "nam", "x=y; name"]);
  const named = `${type}${separator}${nameKey}=${quote}${name}${quote}`;
  if (filename === null)
    return `${named}${usually(draw, ["", ";", "; x=y", " ", '; name="file"', "; filename*=utf-8''b"])}`;
  const key = usually(draw, ["filename", "Filename", "filename*", "x=y; filename"]);
  const value = key === "filename*" ? pick(draw, ["utf-8''a%20b", "latin1''%E9", "''a", "utf-8''%zz"]) : null;
  const file = `${key}=${value ?? `"${filename}"`}`;
  const both = draw(20) === 0 ? `${file}${separator}${named.slice(type.length)}` : `${named}${separator}${file}`;
  return both + usually(draw, ["", ";", "; filename=b", "; size=3", " "]);
}

function partOf(draw: Draw, { kind, boundary }: { kind: "json" | "file"; boundary: string }): Buffer {
  if (draw(40) === 0) return bytesOf(`--${boundary}\r\n${pick(draw, BARE_HEADERS)}`);
  const asFile = kind === "file" ? draw(30) > 0 : draw(15) === 0;
  const name = draw(40) > 0 ? (kind === "json" ? "data_json" : "file") : pick(draw, NAMES);
  const filename = asFile ? usually(draw, FILENAMES) : null;
  const dispositionKey = usually(draw, ["Content-Disposition", "content-disposition", "Content-Disposition "]);
  const lines = [`${dispositionKey}: ${dispositionOf(draw, name, filename)}`];
  if (draw(2) > 0) lines.push(`Content-Type: ${pick(draw, asFile ? FILE_TYPES : FIELD_TYPES)}`);
  if (draw(15) === 0) lines.splice(draw(lines.length + 1), 0, pick(draw, OTHER_LINES));
  const end = (): string => (draw(100) > 0 ? "\r\n" : pick(draw, LINE_ENDS));
  const header = lines.map((line) => line + end()).join("");
  const start = [bytesOf(`--${boundary}${end()}`), draw(2) === 0 ? bytesOf(header) : latin1(header), bytesOf(end())];
  // An empty part: the line break of the next delimiter is the one that ends the header, or follows it.
  if (draw(20) === 0) return Buffer.concat([...start, bytesOf(pick(draw, ["", "\r\n"]))]);
  return Buffer.concat([
    ...start,
    bytesOf(draw(6) > 0 ? pick(draw, TEXTS.slice(0, 5)) : pick(draw, TEXTS)),
    bytesOf(end()),
  ]);
}

/** An empty file, whose header ends with the line break of the next delimiter, and a part with a bare header. */
const emptyThenBare = (draw: Draw, boundary: string): Buffer =>
  bytesOf(
    `--${boundary}\r\nContent-Disposition: form-data; name="${pick(draw, ["file", "data_json"])}"; ` +
      `filename="${pick(draw, ["a", ""])}"\r\n\r\n--${boundary}\r\n${pick(draw, BARE_HEADERS)}`,
  );

/** Damages a few bytes, or moves, repeats or removes some. */
function mutate(draw: Draw, body: Buffer, boundary: string): Buffer {
  const at = draw(body.length + 1);
  const length = draw(draw(4) === 0 ? 80 : 4);
  const [before, some, rest] = [body.subarray(0, at), body.subarray(at, at + length), body.subarray(at + length)];
  switch (draw(6)) {
    case 0:
      return before;
    case 1:
      return Buffer.concat([before, rest]);
    case 2:
      return Buffer.concat([before, some, some, rest]);
    case 3:
      return Buffer.concat([before, Buffer.from([draw(256)]), rest]);
    case 4:
      return Buffer.concat([
        before,
        bytesOf(
          pick(draw, [`\r\n--${boundary}`, `--${boundary}--`, "\r\n", "--", "\r", "\n", '"', ";", ":", "\r\n\r\n"]),
        ),
        some,
        rest,
      ]);
    default: {
      const from = draw(body.length + 1);
      return Buffer.concat([before, body.subarray(from, from + 60), some, rest]);
    }
  }
}

/** A form of one seed, by its number. */
export function drawForm(seed: number, number: number): DrawnForm {
  const draw = randomOf(seed, number);
  const boundary = draw(12) > 0 ? (BOUNDARIES[draw(2)] as string) : pick(draw, BOUNDARIES);
  const quote = /^[\w-]+$/.test(boundary) ? usually(draw, ["", '"']) : draw(2) === 0 ? '"' : "";
  const type = usually(draw, ["multipart/form-data", "Multipart/Form-Data"]);
  const between = usually(draw, ["; ", ";", "; charset=utf-8; ", '; x="; boundary=c"; ', " ;"]);
  const key = usually(draw, ["boundary", "Boundary"]);
  const end = usually(draw, ["", "; charset=utf-8", ";"]);
  const contentType = `${type}${between}${key}=${quote}${boundary}${quote}${end}`;
  const kinds = pick(draw, [
    ["json"],
    ["json"],
    ["json", "file"],
    ["json", "file"],
    ["json", "file"],
    ["file", "json"],
    ["file"],
    ["json", "json"],
    [],
  ]);
  const parts = kinds.map((kind) => partOf(draw, { kind: kind as "json" | "file", boundary }));
  if (draw(10) === 0) parts.splice(draw(parts.length + 1), 0, emptyThenBare(draw, boundary));
  const preamble = usually(draw, ["", "\r\n", "preamble\r\n", " ", `x--${boundary}\r\n`]);
  const epilogue = usually(draw, ["\r\n", "", "epilogue", `\r\n--${boundary}`, `\r\n--${boundary}--`, "\r\n\r\n"]);
  const closing = usually(draw, [`--${boundary}--`, `--${boundary}`, `--${boundary}-`, "", `--${boundary} --`]);
  let body = Buffer.concat([bytesOf(preamble), ...parts, bytesOf(closing), bytesOf(epilogue)]);
  for (let left = draw(3) === 0 ? 1 + draw(3) : 0; left > 0; left -= 1)
    body = mutate(draw, body, boundary) as typeof body;
  return {
    contentType,
    body,
    form: FORMS[Math.max(0, draw(16) - 13) || draw(2)] as FormBody,
    cutAt: draw(body.length + 1),
  };
}

/** Keeps nothing; the token of a file is its content. */
function givenStage(): EvidenceStage & { open: Set<string> } {
  const open = new Set<string>();
  const keep = (bytes: Buffer) => {
    const token = bytes.toString("latin1");
    open.add(token);
    return { digest: hash("sha256", bytes), size: bytes.length, token, content: bytes };
  };
  return {
    open,
    async stage(source, { limit }) {
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of source) {
        size += chunk.length;
        if (size > limit) throw Object.assign(new Error("larger"), { name: "TooLargeError" });
        chunks.push(Buffer.from(chunk));
      }
      return keep(Buffer.concat(chunks));
    },
    stageBytes: async (bytes) => keep(bytes),
    publishFor: async (_staged, write) => write(),
    discard: async (staged) => {
      for (const { token } of staged) open.delete(token);
    },
  };
}

const INTAKE = {
  owner: "owner",
  budget: {
    acquire: async () => ({ release: () => undefined }),
    isContended: () => false,
    load: () => ({ bytes: 0, waiting: 0 }),
  },
};

/** What a handler would get, or the client. `pieces`: the body as it arrives, null for one of a declared length. */
async function outcomeOf({ contentType, body, form }: DrawnForm, pieces: readonly Buffer[] | null): Promise<unknown> {
  const req = Object.assign(Readable.from(pieces ?? [body], { objectMode: false }), {
    headers: {
      "content-type": contentType,
      ...(pieces === null ? { "content-length": String(body.length) } : { "transfer-encoding": "chunked" }),
    },
    complete: true,
    setTimeout: () => undefined,
  });
  const progress = { enter: () => undefined, onOver: () => undefined };
  const ctx = { req, res: new EventEmitter(), is: () => "multipart/form-data", state: { progress } };
  const evidence = givenStage();
  try {
    const { json, file, small, staged } = await readForm(ctx as unknown as Koa.Context, form, {
      limits: LIMITS,
      evidence,
      intake: INTAKE,
    });
    return { json: json.toString("latin1"), file, small, staged };
  } catch (error) {
    assert.is(evidence.open.size, 0, "a refused form leaves nothing in staging");
    if (!(error instanceof AppError)) throw error;
    return { code: error.code, message: error.message, fields: error.fields };
  } finally {
    req.destroy();
  }
}

/** What fuzzing found out about a form: cut, or left to the other parser; then whether it was accepted. */
export type Comparison = { isPlain: boolean; isAccepted: boolean | null };

/** Turns of the event loop within which a form is read. All of it is in memory: a few are enough. */
const MAX_TURNS = 500;

/** Waits for the outcome of a form. @throws Error if there is none, in however much time. */
async function answered(outcome: Promise<unknown>): Promise<unknown> {
  let isSettled = false;
  const settle = (): void => void (isSettled = true);
  outcome.then(settle, settle);
  for (let turns = 0; turns < MAX_TURNS; turns += 1) {
    await nextTurn();
    if (isSettled) return outcome;
  }
  throw new Error("the form was never answered");
}

/** The same bytes as they arrive one by one, or up to three at a time. */
function* inCrumbs(body: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size);
}

/**
 * Reads a form in both ways.
 * @param options.all compares refusals too, of which both ways have the same code, and reads the form once more in
 *   crumbs: slow
 * @throws AssertionError if the outcomes differ, Error for a form that is never answered.
 */
export async function compareParsers(drawn: DrawnForm, { all }: { all: boolean }): Promise<Comparison> {
  const isPlain = parsePlainForm(drawn.body, drawn.contentType) !== null;
  if (!isPlain && !all) return { isPlain, isAccepted: null };
  const { body, cutAt } = drawn;
  const collected = await answered(outcomeOf(drawn, null));
  // What is wrong in several ways is refused for the first that has arrived.
  const pieces = isPlain ? [body.subarray(0, cutAt), body.subarray(cutAt)] : [body];
  const streamed = await answered(
    outcomeOf(
      drawn,
      pieces.filter(({ length }) => length > 0),
    ),
  );
  assert.equal(collected, streamed);
  const isAccepted = "json" in (collected as object);
  if (all) {
    const crumbs = await answered(outcomeOf(drawn, [...inCrumbs(body, 1 + (cutAt % 3))]));
    if (isAccepted) assert.equal(crumbs, collected);
    else assert.not.ok("json" in (crumbs as object), "a form that is refused as a whole is refused in crumbs");
  }
  return { isPlain, isAccepted };
}
