/** Mistakes of clients: each fault changes a valid request. */
import fc from "fast-check";
import { HUGE } from "./requests.ts";
import type { Draft } from "./requests.ts";

type Fault = (draft: Draft) => Draft;

const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as unknown;

/** Values of an unexpected or extreme kind. */
const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  0.5,
  2 ** 53,
  -(2 ** 53),
  1e308,
  HUGE,
  "",
  " ",
  "x".repeat(300),
  "x".repeat(12_000),
  "x".repeat(80_000),
  "\u0000",
  "a\u0000b",
  "\ud800",
  "x\udfff",
  "\u202e",
  "<b>&amp;",
  "../../etc/passwd",
  "%",
  "%00",
  "__proto__",
  "constructor",
  "NaN",
  "Infinity",
  "1e999",
  "-0",
  "0x10",
  "2024-13-45T99:99:99Z",
  "😀".repeat(200),
  [],
  {},
  [null],
  [[]],
  [{}],
  { a: 1 },
  nested(20),
  nested(200),
  Array.from({ length: 3_000 }, () => 0),
  Array.from({ length: 300 }, (_, n) => `n${n}`),
  { "": 1 },
  { "\u0000": 1 },
  { "\ud800": 1 },
  JSON.parse('{"__proto__": 1}'),
  Object.fromEntries(Array.from({ length: 2_500 }, (_, n) => [`k${n}`, n])),
];
const odd = fc.constantFrom(...ODD);

/** The locations in a value: its own, and those of everything in it. */
function places(value: unknown, path: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== "object" || value === null) return [path];
  return [
    path,
    ...Object.keys(value).flatMap((key) => places((value as Record<string, unknown>)[key], [...path, key])),
  ];
}

function changed(
  value: unknown,
  [key, ...rest]: readonly (string | number)[],
  change: (holder: Record<string, unknown>, key: string) => void,
): unknown {
  if (key === undefined) return value;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<string, unknown>;
  if (rest.length === 0) change(copy, String(key));
  else copy[key] = changed(copy[key], rest, change);
  return copy;
}

const at = (draft: Draft, pick: number, change: (holder: Record<string, unknown>, key: string) => void): Draft => {
  const all = places(draft.json);
  return { ...draft, json: changed(draft.json, all[pick % all.length] ?? [], change) };
};

const inJson: readonly fc.Arbitrary<Fault>[] = [
  fc.tuple(fc.nat(), odd).map(
    ([pick, value]) =>
      (draft) =>
        at(draft, pick, (holder, key) => void (holder[key] = value)),
  ),
  fc.nat().map((pick) => (draft) => at(draft, pick, (holder, key) => void delete holder[key])),
  fc.tuple(fc.nat(), fc.constantFrom("extra", "", "id", "toString", "\u0000", "\ud800"), odd).map(
    ([pick, name, value]) =>
      (draft) =>
        at(draft, pick, (holder) => void (Array.isArray(holder) ? holder.push(value) : (holder[name] = value))),
  ),
  odd.map((value) => (draft) => ({ ...draft, json: value })),
];

const rewritten =
  (rewrite: (bytes: Buffer) => Buffer): Fault =>
  (draft) => ({ ...draft, rewrite });
const TYPES = [
  "text/plain",
  "application/json",
  "application/json; charset=latin1",
  "application/json; charset=nonsense",
  "multipart/form-data",
  "multipart/form-data; boundary=other",
  "application/xml",
  ";",
  "application/x-www-form-urlencoded",
  "multipart/mixed; boundary=x",
  `multipart/form-data; boundary=${"b".repeat(300)}`,
];

const inBody: readonly fc.Arbitrary<Fault>[] = [
  fc.nat().map((cut) => rewritten((bytes) => bytes.subarray(0, bytes.length === 0 ? 0 : cut % bytes.length))),
  fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })).map(([place, byte]) =>
    rewritten((bytes) => {
      const copy = Buffer.from(bytes);
      if (copy.length > 0) copy[place % copy.length] = byte;
      return copy;
    }),
  ),
  fc
    .constantFrom(
      "",
      " ",
      "null",
      "{",
      "[",
      "]",
      "{}",
      "[]",
      '"text"',
      "1e999",
      "\ufeff{}",
      "{'a': 1}",
      '{"a":1}{"a":2}',
      '{"name":1,"name":"x"}',
      "\u0000",
      "NaN",
      "undefined",
      "[".repeat(5_000),
      "--",
      "------boundary-of-the-form--\r\n",
      "x".repeat(90_000),
    )
    .map((text) => rewritten(() => Buffer.from(text))),
  fc.constant(rewritten(() => Buffer.from([0xff, 0xfe, 0x7b, 0x00, 0xc3, 0x28]))),
  fc
    .constantFrom(...TYPES)
    .map((type) => (draft) => ({ ...draft, headers: { ...draft.headers, "Content-Type": type } })),
  fc
    .constantFrom('name="other"', "name=payload", 'name=""', "", 'name="data_json"; filename="x"')
    .map((words) => rewritten((bytes) => Buffer.from(bytes.toString("utf8").replace(/name="\w+"/, words)))),
  fc.constant(
    rewritten((bytes) => {
      const [first = ""] = bytes.toString("utf8").split(/(?<=\r\n)(?=------boundary)/);
      return Buffer.concat([Buffer.from(first), bytes]);
    }),
  ),
  fc.constant((draft) => ({ ...draft, file: "f".repeat(90_000) })),
];

const VALUES = [
  "",
  "%00",
  "%ff",
  "%zz",
  "%",
  "%u0041",
  "%C0%AF",
  "%ED%A0%80",
  "+",
  "x".repeat(5_000),
  "-1",
  "0",
  "1e9",
  "99999999999999999999",
  "1.5",
  "NaN",
  "true",
  "TRUE",
  "null",
  "[]",
  "%5B%5D",
  "a%2Cb%2C%2C",
  "..",
  "%2e%2e%2f",
  "%0d%0aX:%20y",
  "2024-01-31T12:00:00",
  "@%7B99999999999.years.ago%7D",
  "~99999999999999999999",
  "%F0%9F%98%80",
  "'%20OR%201=1",
  "(((((((((((((((((((((a%2B)%2B)%2B)",
  "1..2..3",
  "a:b:c",
  "=",
];
const inQuery: readonly fc.Arbitrary<Fault>[] = [
  fc.tuple(fc.nat(), fc.constantFrom(...VALUES)).map(([pick, value]) => (draft) => {
    const names = Object.keys((draft.operation.query as { properties: object }).properties);
    return { ...draft, query: [...draft.query, `${names[pick % names.length] ?? "page"}=${value}`] };
  }),
  fc
    .constantFrom(
      "page=1&page=2&page=x",
      "per_page",
      "&&&=&",
      "=",
      "%",
      "a".repeat(10_000),
      Array.from({ length: 6_000 }, () => "a=1").join("&"),
      "__proto__=1",
      "unknown=1",
      "page[]=1",
      "page=1;per_page=2",
    )
    .map((text) => (draft) => ({ ...draft, query: [...draft.query, text] })),
  fc.nat().map((pick) => (draft) => ({
    ...draft,
    query: draft.query.filter((_one, index) => index !== pick % draft.query.length),
  })),
];

const SEGMENTS = [
  "",
  ".",
  "..",
  "%2e%2e",
  "%00",
  "%ff",
  "%zz",
  "%",
  "%2F",
  "a%2Fb",
  "x".repeat(3_000),
  "%ED%A0%80",
  "%F0%9F%98%80",
  "a;b=c",
  "a:b",
  "@%7Bnow%7D",
  "~",
  "#1",
  "%23999999999999999999999",
  "-99999999999999",
  "tags",
  "0",
  "00",
  "1e3",
  "%20",
  "*",
  "{org}",
  "__proto__",
];
const inPath: readonly fc.Arbitrary<Fault>[] = [
  fc.tuple(fc.nat(), fc.constantFrom(...SEGMENTS)).map(([pick, text]) => (draft) => {
    const segments = [...draft.segments];
    segments[1 + (pick % Math.max(1, segments.length - 1))] = text;
    return { ...draft, segments, leavesOperation: true };
  }),
  fc
    .constantFrom("", "//", "/x")
    .map((text) => (draft) => ({ ...draft, segments: [...draft.segments, text], leavesOperation: true })),
];

const inHead: readonly fc.Arbitrary<Fault>[] = [
  fc
    .constantFrom(
      "Bearer",
      "Bearer ",
      "Basic !!!",
      "Basic Og==",
      `Bearer ${"k".repeat(20_000)}`,
      "Digest x",
      "bearer x y z",
    )
    .map((text) => (draft) => ({ ...draft, headers: { ...draft.headers, Authorization: text } })),
  fc
    .constantFrom("x".repeat(500), "a b", "caf\u00e9", "<script>")
    .map((text) => (draft) => ({ ...draft, headers: { ...draft.headers, "X-Request-ID": text } })),
  fc
    .constantFrom(
      ["Accept", "text/html"],
      ["Content-Encoding", "gzip"],
      ["Range", "bytes=5-1,9-"],
      ["If-None-Match", "*"],
      ["X-Filler", "f".repeat(60_000)],
      ["Expect", "200-nothing"],
      ["X-HTTP-Method-Override", "DELETE"],
    )
    .map(([name, value]) => (draft) => ({
      ...draft,
      headers: { ...draft.headers, [name as string]: value as string },
    })),
];

/** The faults that apply to this operation. */
export function faultFor(draft: { takesBody: boolean; takesQuery: boolean }): fc.Arbitrary<Fault> {
  const kinds = [
    ...(draft.takesBody
      ? [
          { weight: 8, arbitrary: fc.oneof(...inJson) },
          { weight: 4, arbitrary: fc.oneof(...inBody) },
        ]
      : []),
    ...(draft.takesQuery
      ? [{ weight: 6, arbitrary: fc.oneof(...inQuery) }]
      : [{ weight: 1, arbitrary: fc.oneof(...inQuery) }]),
    { weight: 4, arbitrary: fc.oneof(...inPath) },
    { weight: 2, arbitrary: fc.oneof(...inHead) },
  ];
  return fc.oneof(...kinds);
}
