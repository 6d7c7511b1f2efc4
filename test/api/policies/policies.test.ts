import { suite } from "uvu";
import * as assert from "uvu/assert";
import { putPolicy } from "../../../src/api/policies/policies.ts";
import { formData, fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/policies/policies");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const V1 = "_schema: https://assay.example.com/schemas/policy/environment/v1\n";
const V2 = `${V1}artifacts:\n  provenance:\n    required: true\n`;
const FAILED = "Input payload validation failed";

type At = { org: string; key: string };

/** Puts a policy as clients do. */
const put = (at: At, payload: unknown, file: string | Buffer | null = null): Promise<Answer> =>
  server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: payload,
      ...(file === null ? {} : { file: { name: "policy_file", filename: "policy.yml", content: file } }),
    },
  });

/** Puts a hand-made form. */
const putForm = (at: At, form: FormData): Promise<Answer> =>
  server.call("PUT", `/policies/${at.org}`, { key: at.key, raw: form });

const get = (at: At, name: string): Promise<Answer> =>
  server.call("GET", `/policies/${at.org}/${name}`, { key: at.key });

/** Row counts of all tables that a put writes, over all organizations. */
const rowCounts = (): number[] =>
  ["policies", "policy_versions", "policy_events", "audit_log"].map(
    (table) => server.db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0,
  );

/** Asserts that a request is refused with 400 and these field errors, and stores nothing. */
async function assertRefused(
  send: () => Promise<Answer>,
  errors: Record<string, string> | null,
  message = FAILED,
  status = 400,
): Promise<void> {
  const before = rowCounts();
  const answer = await send();
  assert.is(answer.status, status, answer.text);
  assert.equal(answer.body, errors ? { message, errors } : { message });
  assert.equal(rowCounts(), before, "a refusal leaves nothing");
}

const types = (answer: Answer): string[] => answer.body.events.map((event: { type: string }) => event.type);

test("creates a policy with 201 and returns all its fields", async () => {
  const at = server.given.org();
  const answer = await put(at, { name: "production", description: "What may run", type: "env", comment: "first" }, V1);
  assert.is(answer.status, 201);
  const time = answer.body.created_at;
  const user = `${at.org}-admin`;
  assert.type(time, "number");
  assert.equal(answer.body, {
    name: "production",
    description: "What may run",
    created_by: user,
    created_at: time,
    last_modified_at: time,
    archived: false,
    versions: [{ version: 1, comment: "first", timestamp: time, created_by: user, policy_yaml: V1 }],
    events: [
      { type: "creation", timestamp: time, user },
      { type: "new_version", timestamp: time, user, data: { version: 1 } },
    ],
    consuming_envs: [],
  });
  assert.equal((await get(at, "production")).body, answer.body);
  assert.equal((await server.call("GET", `/policies/${at.org}`, { key: at.key })).body, [answer.body]);
});

test("requires a name only; description and comment default to empty, the type to env", async () => {
  const at = server.given.org();
  const answer = await put(at, { name: "x" }, V1);
  assert.is(answer.status, 201);
  assert.is(answer.body.description, "");
  assert.is(answer.body.versions[0].comment, "");
});

test("accepts the example of the reference", async () => {
  const at = server.given.org();
  const { body, file } = putPolicy.example;
  const answer = await put(at, body, file ?? null);
  assert.is(answer.status, 201);
  assert.is(answer.body.versions[0].policy_yaml, file);
});

test("a policy without a file has no version", async () => {
  const at = server.given.org();
  const created = await put(at, { name: "later" });
  assert.is(created.status, 201);
  assert.equal(created.body.versions, []);
  assert.equal(types(created), ["creation"]);
  const updated = await put(at, { name: "later" }, V1);
  assert.is(updated.status, 200);
  assert.is(updated.body.versions.length, 1);
  assert.equal(types(updated), ["creation", "new_version"]);
});

test("identical file and description change nothing, whatever the comment", async () => {
  const at = server.given.org();
  const first = await put(at, { name: "p", description: "d", comment: "one" }, V1);
  for (const again of [
    await put(at, { name: "p", description: "d", comment: "one" }, V1),
    await put(at, { name: "p", description: "d", comment: "two" }, V1),
    await put(at, { name: "p", description: "d" }),
  ]) {
    assert.is(again.status, 200);
    assert.equal(again.body, first.body);
  }
});

test("a new description makes no version; an omitted one becomes empty", async () => {
  const at = server.given.org();
  const first = await put(at, { name: "p", description: "one" }, V1);
  const second = await put(at, { name: "p", description: "two", comment: "ignored" }, V1);
  assert.is(second.status, 200);
  assert.is(second.body.description, "two");
  assert.equal(second.body.versions, first.body.versions);
  assert.equal(types(second), ["creation", "new_version", "metadata_update"]);
  assert.ok(second.body.last_modified_at > first.body.last_modified_at);
  assert.is(second.body.created_at, first.body.created_at);
  const third = await put(at, { name: "p" });
  assert.is(third.body.description, "");
  assert.equal(third.body.versions, first.body.versions);
  assert.equal(types(third), ["creation", "new_version", "metadata_update", "metadata_update"]);
});

test("new content makes the next version; a new description too gives both events", async () => {
  const at = server.given.org();
  await put(at, { name: "p", description: "one" }, V1);
  const second = await put(at, { name: "p", description: "one", comment: "why" }, V2);
  assert.is(second.status, 200);
  assert.equal(
    second.body.versions.map((v: { version: number; comment: string; policy_yaml: string }) => [
      v.version,
      v.comment,
      v.policy_yaml,
    ]),
    [
      [1, "", V1],
      [2, "why", V2],
    ],
  );
  assert.equal(types(second), ["creation", "new_version", "new_version"]);
  assert.equal(second.body.events.at(-1).data, { version: 2 });
  const third = await put(at, { name: "p", description: "two" }, V1);
  assert.is(third.body.versions.length, 3);
  assert.equal(types(third), ["creation", "new_version", "new_version", "metadata_update", "new_version"]);
});

test("returns the upload byte for byte, with byte order mark, CRLF and astral characters", async () => {
  const at = server.given.org();
  const text = `\ufeff# Grüße 🚀\r\n${V2.replaceAll("\n", "\r\n")}# end`;
  const bytes = Buffer.from(text);
  assert.is((await put(at, { name: "p" }, bytes)).status, 201);
  const stored = (await get(at, "p")).body.versions[0].policy_yaml;
  assert.ok(Buffer.from(stored).equals(bytes));
  const again = await put(at, { name: "p" }, bytes);
  assert.is(again.status, 200);
  assert.is(again.body.versions.length, 1);
});

test("refuses an invalid file with all problems and their positions", async () => {
  const at = server.given.org();
  const file = [
    "_schema: https://assay.example.com/schemas/policy/v2",
    "artifacts:",
    "  provenance:",
    "    required: perhaps",
    "  attestations:",
    "    - type: pull-request",
    "    - name: x",
    "      type: generic",
    "      if: ${{ flow.name == }}",
    "extra: 1",
    "",
  ].join("\n");
  const before = rowCounts();
  const answer = await put(at, { name: "p" }, file);
  assert.is(answer.status, 400);
  assert.equal(Object.keys(answer.body), ["message", "errors"]);
  assert.is(answer.body.message, FAILED);
  assert.equal(Object.keys(answer.body.errors), ["policy_file"]);
  const line: string = answer.body.errors.policy_file;
  assert.not.match(line, /[\r\n]/);
  const parts = line.split(/; (?=line )/);
  assert.is(parts.length, 5, line);
  for (const [index, [place, about]] of [
    ["line 1, column 10: ", "_schema: "],
    ["line 4, column 15: ", "artifacts.provenance.required: "],
    ["line 6, column 13: ", "artifacts.attestations.0.type: "],
    ["line 9, ", "artifacts.attestations.1.if: "],
    ["line 10, column 1: ", "extra: "],
  ].entries()) {
    assert.ok(parts[index]?.startsWith(place as string), parts[index]);
    assert.ok(parts[index]?.includes(about as string), parts[index]);
  }
  assert.equal(rowCounts(), before);
});

test("refuses broken YAML with its position", async () => {
  const at = server.given.org();
  for (const text of ["_schema: [", "a: b: c", "\t- x", "&a *a", "{{{{", "- ".repeat(2_000)]) {
    const before = rowCounts();
    const answer = await put(at, { name: "p" }, text);
    assert.is(answer.status, 400, text);
    assert.match(answer.body.errors.policy_file, /^line \d+, column \d+: /);
    assert.equal(rowCounts(), before);
  }
});

test("refuses an empty file, white space and comments alone", async () => {
  const at = server.given.org();
  for (const text of ["", "\ufeff", "\n\n", "# nothing\n"]) {
    const before = rowCounts();
    const answer = await put(at, { name: "p" }, text);
    assert.is(answer.status, 400, JSON.stringify(text));
    assert.match(answer.body.errors.policy_file, /^line \d+, column \d+: the file is empty$/);
    assert.equal(rowCounts(), before);
  }
});

test("refuses a file that is not UTF-8 with the position of the first invalid byte", async () => {
  const at = server.given.org();
  const wrong = (bytes: (number | string)[]) =>
    Buffer.concat(bytes.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from([part]))));
  const text = (line: number, column: number) => ({
    policy_file: `line ${line}, column ${column}: the file is not UTF-8 text. Save it in that encoding`,
  });
  await assertRefused(() => put(at, { name: "p" }, wrong([0xff])), text(1, 1));
  await assertRefused(() => put(at, { name: "p" }, wrong([V1, "# Gr", 0xfc, 0xdf, "e\n"])), text(2, 5));
  await assertRefused(() => put(at, { name: "p" }, wrong([V1, "# 🚀", 0xef, 0xbf])), text(2, 5));
  await assertRefused(() => put(at, { name: "p" }, wrong(["\ufeff# \ufffd", 0xef, 0xbf, "x"])), text(1, 4));
  await assertRefused(() => put(at, { name: "p" }, wrong(["# ", 0xed, 0xa0, 0x80])), text(1, 3));
});

test("refuses a NUL in the file with its position, and one in the payload with its field", async () => {
  const at = server.given.org();
  await assertRefused(() => put(at, { name: "p" }, `${V1}# a\u0000b\n`), {
    policy_file: "line 2, column 4: the character U+0000 is not allowed in YAML",
  });
  await assertRefused(() => put(at, { name: "p", description: "a\u0000b" }, V1), {
    description: "String should not contain a NUL character",
  });
});

test("refuses all unknown controls at once, by name and position", async () => {
  const at = server.given.org();
  const file =
    `${V1}artifacts:\n  attestations:\n    - type: decision\n      for_control: SDLC-1\n` +
    "    - {type: decision, for_control: SDLC-2}\n";
  await assertRefused(() => put(at, { name: "p" }, file), {
    policy_file:
      "line 5, column 20: artifacts.attestations.0.for_control: Control 'SDLC-1' does not exist in " +
      `organization '${at.org}'; ` +
      "line 6, column 37: artifacts.attestations.1.for_control: Control 'SDLC-2' does not exist in " +
      `organization '${at.org}'`,
  });
  const existing = await put(at, { name: "p" }, V1);
  await assertRefused(() => put(at, { name: "p", description: "new" }, file.replace(/ {4}- \{.*\n/, "")), {
    policy_file:
      "line 5, column 20: artifacts.attestations.0.for_control: Control 'SDLC-1' does not exist in organization " +
      `'${at.org}'`,
  });
  assert.equal((await get(at, "p")).body, existing.body);
});

test("accepts a file of exactly 10 MB, and answers 413 to one byte more", async () => {
  const at = server.given.org();
  const limit = 10 * 1_048_576;
  const filler = `# ${"x".repeat(1_021)}\n`;
  let text = V1 + filler.repeat(Math.floor((limit - V1.length) / filler.length));
  text += `#${" ".repeat(limit - text.length - 2)}\n`;
  assert.is(text.length, limit);
  await assertRefused(() => put(at, { name: "big" }, `${text}\n`), null, "File size exceeds the 10MB limit", 413);
  const answer = await put(at, { name: "big" }, text);
  assert.is(answer.status, 201);
  assert.ok(answer.body.versions[0].policy_yaml === text);
  await assertRefused(
    () => put(at, { name: "big" }, "x".repeat(30 * 1_048_576)),
    null,
    "File size exceeds the 10MB limit",
    413,
  );
});

test("names the field of every problem in the payload", async () => {
  const at = server.given.org();
  const pattern = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_\.~]*$`;
  const nameError = (name: string) => ({ name: `String should match pattern '${pattern}' [input: ${name}]` });
  const cases: [payload: unknown, errors: Record<string, string>][] = [
    [{}, { name: "Field required" }],
    [{ name: "" }, nameError("")],
    [{ name: "-x" }, nameError("-x")],
    [{ name: "a b" }, nameError("a b")],
    [{ name: "a/b" }, nameError("a/b")],
    [{ name: "é" }, nameError("é")],
    [{ name: "p\n" }, nameError("p\\u000a")],
    [{ name: 7 }, { name: "Input should be a valid string [input: 7]" }],
    [{ name: null }, { name: "Input should be a valid string [input: null]" }],
    [{ name: "p", description: null }, { description: "Input should be a valid string [input: null]" }],
    [{ name: "p", comment: ["x"] }, { comment: 'Input should be a valid string [input: ["x"]]' }],
    [{ name: "p", type: "flow" }, { type: "Input should be 'env' [input: flow]" }],
    [
      { name: "p", archived: true },
      { archived: "Extra inputs are not permitted [input: true]; possible keys: name, description, type, comment" },
    ],
    [
      { type: "x", other: 1 },
      {
        name: "Field required",
        other: "Extra inputs are not permitted [input: 1]; possible keys: name, description, type, comment",
        type: "Input should be 'env' [input: x]",
      },
    ],
    [[], { payload: "Input should be a valid object [input: []]" }],
    [null, { payload: "Input should be a valid object [input: null]" }],
    ["not json", { payload: "Input should be valid JSON: the text ends early or is malformed" }],
  ];
  for (const [payload, errors] of cases) {
    const before = rowCounts();
    const answer = await put(at, payload, V1);
    assert.is(answer.status, 400, JSON.stringify(payload));
    assert.is(answer.body.message, FAILED);
    if (payload !== "not json") assert.equal(answer.body.errors, errors);
    else assert.match(answer.body.errors.payload, /^Input should be valid JSON: /);
    assert.equal(rowCounts(), before);
  }
});

test("accepts names with all characters of the grammar, also in paths", async () => {
  const at = server.given.org();
  const name = "0aZ-_.~";
  assert.is((await put(at, { name }, V1)).status, 201);
  assert.is((await get(at, name)).body.name, name);
  assert.is((await get(at, encodeURIComponent(name))).body.name, name);
});

test("refuses missing, repeated, unknown and wrong parts by name", async () => {
  const at = server.given.org();
  const payload = JSON.stringify({ name: "p" });
  const policyFile = () => new File([V1], "policy.yml");

  const withoutPayload = new FormData();
  withoutPayload.append("policy_file", policyFile());
  await assertRefused(() => putForm(at, withoutPayload), { payload: "Field required" });

  const twoPayloads = formData({ field: "payload", json: { name: "p" } });
  twoPayloads.append("payload", payload);
  await assertRefused(() => putForm(at, twoPayloads), { payload: "The part is given more than once" });

  const twoFiles = formData({ field: "payload", json: { name: "p" } });
  twoFiles.append("policy_file", policyFile());
  twoFiles.append("policy_file", policyFile());
  await assertRefused(() => putForm(at, twoFiles), { policy_file: "The part is given more than once" });

  const plainFile = formData({ field: "payload", json: { name: "p" } });
  plainFile.append("policy_file", V1);
  await assertRefused(() => putForm(at, plainFile), { policy_file: "The part should be a file: give it a filename" });

  const unknownField = formData({ field: "payload", json: { name: "p" } });
  unknownField.append("data_json", payload);
  await assertRefused(() => putForm(at, unknownField), {
    data_json: "Extra inputs are not permitted [input: form part]",
  });

  const unknownFile = formData({ field: "payload", json: { name: "p" } });
  unknownFile.append("attachment_file", policyFile());
  await assertRefused(() => putForm(at, unknownFile), {
    attachment_file: "Extra inputs are not permitted [input: file part]",
  });

  await assertRefused(
    () => server.call("PUT", `/policies/${at.org}`, { key: at.key, body: { name: "p" } }),
    null,
    "Content-Type should be multipart/form-data with the part 'payload'",
  );
});

test("accepts the parts in either order, and a content type of the payload", async () => {
  const at = server.given.org();
  const form = new FormData();
  form.append("policy_file", new File([V1], "policy.yml"));
  form.append("payload", JSON.stringify({ name: "p" }));
  assert.is((await putForm(at, form)).status, 201);
  const boundary = "frontier";
  const raw = new TextEncoder().encode(
    `--${boundary}\r\nContent-Disposition: form-data; name="payload"\r\nContent-Type: application/json\r\n\r\n` +
      `{"name":"q"}\r\n--${boundary}--\r\n`,
  );
  const answer = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    raw,
    headers: { "Content-Type": `multipart/form-data; boundary=${boundary}` },
  });
  assert.is(answer.status, 201);
  assert.is(answer.body.name, "q");
});

test("answers 404 with the name of an unknown policy", async () => {
  const at = server.given.org();
  const other = server.given.org();
  await put(other, { name: "theirs" }, V1);
  for (const name of ["nothing", "theirs"]) {
    const answer = await get(at, name);
    assert.is(answer.status, 404);
    assert.equal(answer.body, { message: `Policy '${name}' does not exist in organization '${at.org}'` });
  }
});

test("lists policies by name as a plain array, initially empty", async () => {
  const at = server.given.org();
  const list = () => server.call("GET", `/policies/${at.org}`, { key: at.key });
  assert.equal((await list()).body, []);
  for (const name of ["b", "a", "c"]) await put(at, { name }, V1);
  const answer = await list();
  assert.is(answer.status, 200);
  assert.equal(
    answer.body.map((policy: { name: string }) => policy.name),
    ["a", "b", "c"],
  );
  for (const policy of answer.body) assert.equal(policy, (await get(at, policy.name)).body);
});

test("shows 8 MB of files per response: the newest that fit, comments instead of the others", async () => {
  const at = server.given.org();
  const file = (character: string, size: number): string => `${V1}# ${character.repeat(size - V1.length - 2)}`;
  const [old, middle, newest] = [file("o", 1_000), file("m", 5_000_000), file("n", 5_000_000)];
  for (const text of [old, middle, newest]) assert.ok((await put(at, { name: "large" }, text)).status < 300);
  await put(at, { name: "small" }, V1);
  await put(at, { name: "too-large" }, file("t", 4_000_000));
  const texts = (policy: { versions: { policy_yaml: string }[] }): string[] =>
    policy.versions.map(({ policy_yaml }) => policy_yaml);
  const single =
    "# This file of 5000000 bytes is not shown: a response has at most 8388608 bytes of files, the newest first\n";
  const { body } = await get(at, "large");
  assert.ok(texts(body)[2] === newest);
  assert.equal(texts(body).slice(0, 2), [old, single]);

  const listed = await server.call("GET", `/policies/${at.org}`, { key: at.key });
  assert.ok(texts(listed.body[0])[2] === newest);
  assert.is(
    texts(listed.body[0])[1],
    "# This file of 5000000 bytes is not shown: a response has at most 8388608 bytes of files. Read the policy " +
      "on its own\n",
  );
  assert.equal(texts(listed.body[1]), [V1]);
  assert.equal(texts(listed.body[2]), [
    "# This file of 4000000 bytes is not shown: a response has at most 8388608 bytes of files. Read the policy " +
      "on its own\n",
  ]);
});

test("shows the newest version of a single policy even if it is larger than that", async () => {
  const at = server.given.org();
  const text = `${V1}# ${"x".repeat(9_000_000)}`;
  assert.is((await put(at, { name: "large" }, text)).status, 201);
  const { body } = await get(at, "large");
  assert.ok(body.versions[0].policy_yaml === text);
});

test("marks damaged details of an event in policies and lists", async () => {
  const at = server.given.org();
  const good = await put(at, { name: "good" }, V1);
  for (const [index, json] of ["{broken", "[]", "null", "7"].entries()) {
    const name = `bad-${index}`;
    const { body } = await put(at, { name }, V1);
    server.db
      .prepare("UPDATE policy_events SET data_json = ? WHERE type = 'new_version' AND timestamp = ?")
      .run(json, body.created_at);
    const marked = { ...body, events: [body.events[0], { ...body.events[1], data: { unreadable: true } }] };
    const answer = await get(at, name);
    assert.is(answer.status, 200);
    assert.equal(answer.body, marked);
    const list = await server.call("GET", `/policies/${at.org}`, { key: at.key });
    assert.is(list.status, 200);
    assert.equal(list.body[index], marked);
    assert.equal(list.body.at(-1), good.body);
  }
});

test("fifty concurrent requests create one policy: one 201, the others 200, one version", async () => {
  const at = server.given.org();
  const answers = await Promise.all(Array.from({ length: 50 }, () => put(at, { name: "race", description: "d" }, V1)));
  const statuses = answers.map((answer) => answer.status).sort();
  assert.equal(statuses, [...Array<number>(49).fill(200), 201]);
  const { body } = await get(at, "race");
  for (const answer of answers) assert.equal(answer.body, body);
  assert.equal(types({ body } as Answer), ["creation", "new_version"]);
});

test("concurrent uploads become consecutive versions, each once", async () => {
  const at = server.given.org();
  const files = Array.from({ length: 30 }, (_, index) => `${V1}# ${index}\n`);
  const answers = await Promise.all(files.map((file) => put(at, { name: "race" }, file)));
  assert.equal(answers.map((answer) => answer.status).sort(), [...Array<number>(29).fill(200), 201]);
  const { versions, events } = (await get(at, "race")).body as {
    versions: { version: number; policy_yaml: string }[];
    events: unknown[];
  };
  assert.equal(
    versions.map((version) => version.version),
    files.map((_, index) => index + 1),
  );
  assert.equal(versions.map((version) => version.policy_yaml).sort(), [...files].sort());
  assert.is(events.length, 31);
});

test("a refused file between two valid ones affects neither", async () => {
  const at = server.given.org();
  const before = rowCounts();
  const answers = await Promise.all([
    put(at, { name: "a" }, V1),
    put(at, { name: "b" }, "_schema: 1"),
    put(at, { name: "c" }, V1),
  ]);
  assert.equal(
    answers.map((answer) => answer.status),
    [201, 400, 201],
  );
  assert.equal(
    rowCounts(),
    [2, 2, 4, 2].map((added, index) => (before[index] ?? 0) + added),
  );
});

test("shows the caller's display name as creator and user", async () => {
  const { org, key } = server.given.org();
  const member = server.given.user(org, "member");
  const user = server.db.prepare<[], string>("SELECT name FROM users ORDER BY id DESC LIMIT 1").pluck().get() ?? "";
  server.db.prepare("UPDATE users SET display_name = 'Mary Member' WHERE name = ?").run(user);
  const bot = server.given.serviceAccount(org, "member");
  const botName = server.db
    .prepare<[], string>("SELECT name FROM service_accounts ORDER BY id DESC LIMIT 1")
    .pluck()
    .get();
  await put({ org, key: member }, { name: "p" }, V1);
  const { body } = await put({ org, key: bot }, { name: "p", description: "d" }, V2);
  assert.is(body.created_by, "Mary Member");
  assert.equal(
    body.versions.map((version: { created_by: string }) => version.created_by),
    ["Mary Member", botName],
  );
  assert.equal(
    body.events.map((event: { user: string }) => event.user),
    ["Mary Member", "Mary Member", botName, botName],
  );
  assert.is((await get({ org, key }, "p")).status, 200);
});

test("records every accepted put in the audit log with its effect", async () => {
  const at = server.given.org();
  const name = fresh("policy");
  await put(at, { name }, V1);
  await put(at, { name, description: "d" }, V2);
  await put(at, { name, description: "d" }, V2);
  const entries = server.db
    .prepare<[], { event: string; operation: string; detail_json: string }>(
      "SELECT event, operation, detail_json FROM audit_log ORDER BY id DESC LIMIT 3",
    )
    .all()
    .reverse();
  assert.equal(
    entries.map(({ event, operation, detail_json }) => [event, operation, JSON.parse(detail_json)]),
    [
      ["policy.put", "put_policy", { policy: name, created: true, described: false, version: 1 }],
      ["policy.put", "put_policy", { policy: name, created: false, described: true, version: 2 }],
      ["policy.put", "put_policy", { policy: name, created: false, described: false, version: null }],
    ],
  );
});

test("readers cannot write policies; outsiders see those of public organizations only", async () => {
  const open = server.given.org({ public: true });
  await put(open, { name: "p" }, V1);
  const reader = server.given.user(open.org, "reader");
  const stranger = server.given.user(open.org, null);
  const denied = { message: "You don't have permission to access this resource" };
  for (const key of [reader, stranger]) {
    assert.is((await get({ org: open.org, key }, "p")).status, 200);
    await assertRefused(() => put({ org: open.org, key }, { name: "p", description: "x" }), null, denied.message, 403);
  }
  const closed = server.given.org();
  await put(closed, { name: "p" }, V1);
  const answer = await get({ org: closed.org, key: stranger }, "p");
  assert.is(answer.status, 403);
  assert.equal(answer.body, denied);
});

/** An environment with these policies, by name. */
function environment(on: TestServer, at: At, policies: string[], archivedAt: number | null = null): number {
  const organization = on.store.organizations.find(at.org) as { id: number };
  const name = fresh("env");
  const id = Number(
    on.db
      .prepare(
        "INSERT INTO environments (public_id, organization_id, name, type, archived_at, created_at, " +
          "last_modified_at) VALUES (?, ?, ?, 'K8S', ?, 1, 1)",
      )
      .run(name, organization.id, name, archivedAt).lastInsertRowid,
  );
  const attach = on.db.prepare(
    "INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, ?)",
  );
  for (const [position, policy] of policies.entries())
    attach.run(id, on.store.policies.find(organization.id, policy)?.id, position);
  return id;
}

const revision = (on: TestServer, id: number): number => on.store.environments.get(id).revision;

test("a new version enqueues the re-evaluation of active environments that use the policy", async () => {
  const own = await startServer();
  try {
    // Jobs then stay in the queue.
    await own.runner.close();
    const jobs = () =>
      (
        own.db.prepare("SELECT payload_json FROM jobs WHERE kind = 'reevaluate' ORDER BY id").pluck().all() as string[]
      ).map((text) => JSON.parse(text));
    const at = own.given.org();
    const send = async (status: number, payload: unknown, file: string | null): Promise<void> => {
      const form = {
        field: "payload",
        json: payload,
        ...(file === null ? {} : { file: { name: "policy_file", filename: "p.yml", content: file } }),
      };
      const answer = await own.call("PUT", `/policies/${at.org}`, { key: at.key, form });
      assert.is(answer.status, status, answer.text);
    };
    await send(201, { name: "p" }, null);
    await send(201, { name: "other" }, V1);
    const [prod, staging] = [environment(own, at, ["other", "p"]), environment(own, at, ["p"])];
    const untouched = [environment(own, at, ["other"]), environment(own, at, []), environment(own, at, ["p"], 5)];

    await send(200, { name: "p", description: "changed" }, null);
    await send(400, { name: "p" }, "rules: none");
    assert.equal(jobs(), []);

    await send(200, { name: "p" }, V1);
    const { publicId, name } = own.db.prepare("SELECT public_id AS publicId, name FROM users").get() as {
      publicId: string;
      name: string;
    };
    const queued = [prod, staging].map((id) => ({
      environment_id: id,
      snapshot_count: 0,
      cause: "policy_version",
      user_id: publicId,
      user_name: name,
    }));
    assert.equal(jobs(), queued);
    assert.equal(
      [prod, staging, ...untouched].map((id) => revision(own, id)),
      [1, 1, 0, 0, 0],
    );

    await send(200, { name: "p", description: "changed again", comment: "the same file" }, V1);
    assert.equal(jobs(), queued);
    await send(200, { name: "p" }, V2);
    assert.equal(jobs(), [...queued, ...queued]);
    assert.equal(
      [prod, staging, ...untouched].map((id) => revision(own, id)),
      [2, 2, 0, 0, 0],
    );
  } finally {
    await own.stop();
  }
});

test("re-evaluates soon after the response to a new version", async () => {
  const at = server.given.org();
  await put(at, { name: "p" }, V1);
  environment(server, at, ["p"]);
  server.lines.length = 0;
  assert.is((await put(at, { name: "p" }, V2)).status, 200);
  await server.settled();
  assert.is(server.db.prepare("SELECT count(*) FROM jobs").pluck().get(), 0);
  const jobLines = server.lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "job");
  assert.equal(
    jobLines.map(({ kind, attempts, outcome }) => [kind, attempts, outcome]),
    [["reevaluate", 1, "done"]],
  );
});

test("lists one page of the policies with a part in their name, in an envelope", async () => {
  const at = server.given.org();
  for (const name of ["prod-a", "PROD-b", "prod-c", "staging"]) await put(at, { name }, V1);
  const list = (query: string): Promise<Answer> => server.call("GET", `/policies/${at.org}${query}`, { key: at.key });
  const names = ({ body }: Answer): string[] => (body.policies ?? body).map(({ name }: { name: string }) => name);

  const first = await list("?name=prod&per_page=2");
  assert.equal(names(first), ["PROD-b", "prod-a"]);
  assert.equal(
    { ...first.body, policies: null },
    {
      page: 1,
      per_page: 2,
      total_pages: 2,
      total_count: 3,
      policies: null,
    },
  );
  assert.equal(names(await list("?name=prod&per_page=2&page=2")), ["prod-c"]);
  assert.equal(names(await list("?page=9")), []);
  assert.equal(names(await list("?name=_")), []);
  assert.equal(names(await list("?name=STAG")), ["staging"], "a bare list without a page");
  for (const query of ["?page=0", "?per_page=101", "?files=newest"]) assert.is((await list(query)).status, 400, query);
});

test("shows only the files that are asked for", async () => {
  const at = server.given.org();
  for (const file of [V1, V2, `${V2}# 3\n`]) await put(at, { name: "p" }, file);
  const texts = async (path: string): Promise<string[]> => {
    const { body } = await server.call("GET", `/policies/${at.org}${path}`, { key: at.key });
    return (Array.isArray(body) ? body[0] : body).versions.map((one: { policy_yaml: string }) => one.policy_yaml);
  };
  const omitted = (text: string): string => `# This file of ${text.length} bytes was not requested\n`;
  const latest = [omitted(V1), omitted(V2), `${V2}# 3\n`];
  const none = [omitted(V1), omitted(V2), omitted(`${V2}# 3\n`)];
  assert.equal(await texts("/p"), [V1, V2, `${V2}# 3\n`]);
  assert.equal(await texts("/p?files=latest"), latest);
  assert.equal(await texts("/p?files=none"), none);
  assert.equal(await texts("/p?files=1&files=2"), [V1, V2, omitted(`${V2}# 3\n`)]);
  assert.equal(await texts("/p?files=7"), none);
  assert.equal(await texts("?files=latest"), latest);
  assert.equal(await texts("?files=none"), none);
  assert.is((await server.call("GET", `/policies/${at.org}/p?files=0`, { key: at.key })).status, 400);
});

test.run();
