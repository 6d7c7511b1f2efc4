/** Rego policies (newer-clients 5): publishing, versions, bundles, archiving, and what is refused. */
import { createHash } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { tar } from "../../../src/archive/tar.ts";
import { untar } from "../../../src/archive/untar.ts";
import { readEngineFacts } from "../../../src/rego/engine-module.ts";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { entriesOf, refused } from "../administration.ts";
import { COMPLIANT, constant, regoClient } from "./rego-given.ts";
import type { At, Json } from "./rego-given.ts";

const test = suite("api/policies/rego-policies");
let server: TestServer;
let rego: ReturnType<typeof regoClient>;
test.before(async () => {
  server = await startServer();
  rego = regoClient(server);
});
test.after(() => server.stop());

const sha256 = (bytes: string | Buffer): string => createHash("sha256").update(bytes).digest("hex");
/** The digest of newer-clients 5.1, written down a second time. */
const digestOf = (files: Record<string, string>): string =>
  sha256(
    Object.entries(files)
      .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      .map(([path, content]) => `${path}\0${Buffer.byteLength(content)}\0${content}`)
      .join(""),
  );
const NO_DEFAULT =
  "allow has no default, so an evaluation fails where no rule gives it a value: add 'default allow := false'";
const put = (at: At, path: string): Promise<Answer> =>
  server.call("PUT", `/rego-policies/${at.org}/${path}`, { key: at.key });
const patch = (at: At, identifier: string, body: unknown): Promise<Answer> =>
  server.call("PATCH", `/rego-policies/${at.org}/${identifier}`, { key: at.key, body });
const archiveOf = (members: readonly (readonly [string, string | Buffer])[]): Buffer =>
  gzipSync(
    Buffer.concat([
      ...tar(
        members.map(([name, content]) => {
          const bytes = Buffer.from(content);
          return { name, size: bytes.length, mtime: 0, content: [bytes] };
        }),
      ),
    ]),
  );
const sendArchive = (
  at: At,
  identifier: string,
  { bytes, json = {}, part = "bundle" }: { bytes: Buffer; json?: unknown; part?: string },
): Promise<Answer> =>
  server.call("PUT", `/rego-policies/${at.org}/${identifier}`, {
    key: at.key,
    form: { json, file: { name: part, filename: "bundle.tar.gz", content: bytes } },
  });
/** Time and owner in the headers of a tar with files of less than a block. */
const headersOf = (bytes: Buffer) => {
  const read = (header: Buffer, from: number, to: number): number =>
    Number.parseInt(header.toString("latin1", from, to), 8);
  return Array.from({ length: Math.floor(bytes.length / 1_024) }, (_, at) =>
    bytes.subarray(at * 1_024, at * 1_024 + 512),
  )
    .filter((header) => header[0] !== 0)
    .map((header) => ({ owner: read(header, 108, 116), group: read(header, 116, 124), mtime: read(header, 136, 148) }));
};
const download = async (at: At, identifier: string, version: string) => {
  const path = `/rego-policies/${at.org}/${identifier}/versions/${version}/bundle`;
  const response = await fetch(`${server.url}/api/v2${path}`, { headers: { Authorization: `Bearer ${at.key}` } });
  return { response, bytes: Buffer.from(await response.arrayBuffer()) };
};

test("publishes a policy with 201 and everything that the engine found in it", async () => {
  const at = server.given.org();
  const files = {
    "four_eyes.rego": `# METADATA
# entrypoint: true
package four_eyes

# METADATA
# entrypoint: true
allow := count(input.trails) >= data.params.minimum

# METADATA
# entrypoint: true
approvals := data.params.approvals
`,
    "lib/notes.txt": "not read",
  };
  const body = { name: "Four eyes", description: "Two people", comment: "First", files };
  const entries = await entriesOf(server, async () => {
    const answer = await rego.publish(at, "four-eyes", body);
    assert.is(answer.status, 201);
    const { created_at: createdAt, version } = answer.body;
    const { opa, sha256: engine } = readEngineFacts();
    const expected = {
      version: 1,
      sha256: digestOf(files),
      package: "four_eyes",
      outputs: ["approvals"],
      params: ["approvals", "minimum"],
      warnings: [`four_eyes.rego:7: ${NO_DEFAULT}`],
      comment: "First",
      engine: `opa ${opa} sha256:${engine}`,
      created_at: version.created_at,
      created_by: `${at.org}-admin`,
      files: Object.entries(files).map(([path, source]) => ({
        path,
        size: Buffer.byteLength(source),
        sha256: sha256(source),
      })),
    };
    assert.equal(answer.body, {
      identifier: "four-eyes",
      name: "Four eyes",
      description: "Two people",
      archived: false,
      created_at: createdAt,
      created_by: `${at.org}-admin`,
      current_version: 1,
      version: expected,
      changed: true,
      warnings: expected.warnings,
    });
  });
  assert.equal(
    entries.map(({ event, detail }: Json) => ({ event, detail })),
    [{ event: "rego_policy.published", detail: { rego_policy: "four-eyes", version: 1, sha256: digestOf(files) } }],
  );
});

test("returns what is worth a look, and keeps it with the version", async () => {
  const at = server.given.org();
  const files = { "p.rego": "package p\n\nallow if input.trail.is_compliant\n" };
  const { body } = await rego.publish(at, "warned", { files });
  const warnings = [`p.rego:3: ${NO_DEFAULT}`];
  assert.equal([body.warnings, body.version.warnings], [warnings, warnings]);
  assert.equal((await rego.policies(at, "/warned/versions/1")).body.warnings, warnings);
});

test("unchanged content makes no version, and changes of name and description alone make none", async () => {
  const at = server.given.org();
  const files = { "p.rego": COMPLIANT };
  const first = await rego.publish(at, "same", { files });
  assert.equal([first.status, first.body.version.version, first.body.changed], [201, 1, true]);
  assert.equal([first.body.name, first.body.description], ["same", ""]);
  await refused(server, () => rego.publish(at, "same", { files }), {
    status: 200,
    body: { ...first.body, changed: false },
  });
  const renamed = await rego.publish(at, "same", { files, name: "Another", comment: "ignored" });
  assert.equal([renamed.status, renamed.body.changed, renamed.body.name], [200, true, "Another"]);
  assert.equal([renamed.body.version.version, renamed.body.version.comment], [1, ""]);
  const second = await rego.publish(at, "same", { files: { "p.rego": constant(true) } });
  assert.equal([second.status, second.body.version.version, second.body.current_version], [201, 2, 2]);
  assert.is(second.body.name, "Another", "an absent name is unchanged");
  const back = await rego.publish(at, "same", { files });
  assert.equal([back.status, back.body.version.version], [201, 3], "content of an older version is new again");
});

test("takes the identifier from the body, files as a list, and the other spelling of the path", async () => {
  const at = server.given.org();
  const list = [{ path: "p.rego", content: COMPLIANT }];
  const answer = await server.call("POST", `/rego_policies/${at.org}`, {
    key: at.key,
    body: { identifier: "spelled", files: list },
  });
  assert.equal([answer.status, answer.body.identifier], [201, "spelled"]);
  assert.is(answer.body.version.sha256, digestOf({ "p.rego": COMPLIANT }));
  const read = await server.call("GET", `/rego_policies/${at.org}/spelled/versions/v1`, { key: at.key });
  assert.equal([read.status, read.body.files[0].source], [200, COMPLIANT]);
  await refused(
    server,
    () =>
      server.call("POST", `/rego-policies/${at.org}`, {
        key: at.key,
        body: { identifier: "../x", files: { "p.rego": COMPLIANT } },
      }),
    {
      status: 400,
      body: {
        message: "Input payload validation failed",
        errors: { identifier: String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: ../x]` },
      },
    },
  );
});

test("takes a gzipped tar in a part of any name, and returns the same bytes every time", async () => {
  const at = server.given.org();
  const files = { "a/data.json": '{"limit": 1}', "p.rego": COMPLIANT, "z.txt": "ü" };
  const bytes = archiveOf([
    ["./z.txt", files["z.txt"]],
    ["./p.rego", files["p.rego"]],
    ["a/data.json", files["a/data.json"]],
  ]);
  const answer = await sendArchive(at, "tarred", { bytes, json: { comment: "as a tar" }, part: "policy_bundle" });
  assert.equal([answer.status, answer.body.version.comment], [201, "as a tar"], answer.text);
  assert.is(answer.body.version.sha256, digestOf(files));
  const json = await rego.publish(at, "as-json", { files });
  assert.is(json.body.version.sha256, digestOf(files), "however it was sent");

  const { response, bytes: packed } = await download(at, "tarred", "v1");
  assert.is(response.headers.get("content-type"), "application/gzip");
  assert.match(response.headers.get("content-disposition") ?? "", /filename="?tarred-v1\.tar\.gz/);
  assert.equal(
    [...untar(gunzipSync(packed))].map(({ name, content }) => [name, content.toString()]),
    Object.entries(files),
    "sorted by path",
  );
  const headers = headersOf(gunzipSync(packed));
  assert.equal(
    headers.map(({ mtime, owner, group }) => [mtime, owner, group]),
    Object.keys(files).map(() => [0, 0, 0]),
  );
  assert.equal((await download(at, "tarred", "1")).bytes, packed);
  assert.equal((await download(at, "as-json", "1")).bytes, packed);
});

test("reads policies with a version, lists versions newest first, and finds policies", async () => {
  const at = server.given.org();
  await rego.publish(at, "b-policy", { name: "Ünder", files: { "p.rego": constant(true) } });
  await rego.publish(at, "b-policy", { comment: "second", files: { "p.rego": constant(false) } });
  await rego.publish(at, "a-policy", { files: { "p.rego": constant(true) } });
  const current = (await rego.policies(at, "/b-policy")).body;
  assert.equal([current.version.version, current.version.files[0].source], [2, constant(false)]);
  for (const version of ["1", "v1"]) {
    const { body } = await rego.policies(at, `/b-policy?version=${version}`);
    assert.equal([body.current_version, body.version.version, body.version.files[0].source], [2, 1, constant(true)]);
  }
  const versions = (await rego.policies(at, "/b-policy/versions")).body;
  assert.equal(
    { ...versions, versions: versions.versions.map(({ version, comment }: Json) => [version, comment]) },
    {
      page: 1,
      per_page: 15,
      total_pages: 1,
      total_count: 2,
      versions: [
        [2, "second"],
        [1, ""],
      ],
    },
  );
  assert.is(versions.versions[0].files[0].source, undefined, "lists have no sources");
  const identifiers = async (query = ""): Promise<string[]> =>
    (await rego.policies(at, query)).body.rego_policies.map(({ identifier }: Json) => identifier);
  assert.equal(await identifiers(), ["a-policy", "b-policy"]);
  assert.equal(await identifiers("?sort_direction=desc"), ["b-policy", "a-policy"]);
  assert.equal(await identifiers(`?search=${encodeURIComponent("ünd")}`), ["b-policy"]);
  assert.equal(await identifiers("?search=A-POL"), ["a-policy"]);
  assert.equal(await identifiers("?per_page=1&page=2"), ["b-policy"]);
  assert.equal(await identifiers("?archived=true"), []);
});

test("renames and archives without a version; an archived policy keeps its name and can be evaluated", async () => {
  const at = await rego.world();
  const files = { "p.rego": constant(true) };
  await rego.publish(at, "old", { files });
  const renamed = await patch(at, "old", { name: "Old one", description: null });
  assert.equal([renamed.status, renamed.body.name, renamed.body.current_version], [200, "Old one", 1]);
  await refused(server, () => patch(at, "old", { name: "Old one" }), { status: 200, body: renamed.body });
  const archived = await put(at, "old/archive");
  assert.equal([archived.status, archived.body.archived], [200, true]);
  await refused(server, () => put(at, "old/archive"), { status: 200, body: archived.body });
  assert.equal((await rego.policies(at)).body.rego_policies, []);
  assert.equal((await rego.policies(at, "?archived=true")).body.rego_policies, [archived.body]);
  const created = await rego.evaluate(at, { context: { trails: at.trails }, policy: { identifier: "old" } });
  assert.is((await rego.evaluations(at, `/${created.body.id}`)).body.result.allow, true);
  assert.is((await rego.publish(at, "old", { files })).body.archived, true, "publishing does not revive it");
  assert.equal((await put(at, "old/unarchive")).body, { ...archived.body, archived: false });
});

test("each change of a policy is one entry of the audit log, and what changes nothing is none", async () => {
  const at = server.given.org();
  await rego.publish(at, "logged", { files: { "p.rego": COMPLIANT } });
  const entries = await entriesOf(server, async () => {
    await rego.publish(at, "logged", { files: { "p.rego": COMPLIANT } });
    await patch(at, "logged", { name: "Logged" });
    await patch(at, "logged", { name: "Logged" });
    for (const action of ["archive", "archive", "unarchive", "unarchive"]) await put(at, `logged/${action}`);
    await rego.publish(at, "logged", { files: { "p.rego": constant(true) } });
  });
  const path = `/api/v2/rego-policies/${at.org}/logged`;
  assert.equal(
    entries.map(({ event, target, actor_name, detail }) => ({ event, target, actor_name, detail })),
    [
      { event: "rego_policy.edited", target: path, detail: { rego_policy: "logged" } },
      { event: "rego_policy.archived", target: `${path}/archive`, detail: { rego_policy: "logged" } },
      { event: "rego_policy.unarchived", target: `${path}/unarchive`, detail: { rego_policy: "logged" } },
      {
        event: "rego_policy.published",
        target: path,
        detail: { rego_policy: "logged", version: 2, sha256: digestOf({ "p.rego": constant(true) }) },
      },
    ].map((entry) => ({ ...entry, actor_name: `${at.org}-admin` })),
  );
});

test("concurrent publications are all accepted, one after the other", async () => {
  const at = server.given.org();
  const answers = await Promise.all(
    [1, 2, 3, 4, 5].map((n) =>
      rego.publish(at, "raced", { files: { "p.rego": `package p\n\ndefault allow := false\n\nx := ${n}\n` } }),
    ),
  );
  assert.equal(
    answers.map(({ status }) => status),
    [201, 201, 201, 201, 201],
  );
  assert.equal(answers.map(({ body }) => body.version.version).sort(), [1, 2, 3, 4, 5]);
  assert.is((await rego.policies(at, "/raced")).body.current_version, 5);
});

const invalidPolicy = (errors: Record<string, string>) => ({
  status: 400,
  body: { message: "The policy is not valid", errors },
});
const failed = (errors: Record<string, string>) => ({
  status: 400,
  body: { message: "Input payload validation failed", errors },
});
const bad = (message: string) => ({ status: 400, body: { message } });

test("refuses a bundle that does not load with the engine's text, and leaves nothing behind", async () => {
  const at = server.given.org();
  const allows = (name: string): string => `package ${name}\n\nallow := true\n`;
  const several = "2 packages declare allow (data.a, data.b), so exactly one of them must be annotated";
  for (const [files, errors] of [
    [
      { "p.rego": "package p\n\nallow if {\n  x := \n}\n" },
      { compile: "p.rego:5: rego_parse_error: unexpected } token\n\t}\n\t^" },
    ],
    [
      { "p.rego": 'package p\n\nallow if http.send({"url": "http://a.test"}).status_code == 200\n' },
      { compile: "p.rego:3: rego_type_error: undefined function http.send" },
    ],
    [
      { "README.md": "nothing", "notes.txt": "to load" },
      { no_policy: "The bundle has no policy: it needs a file that ends in .rego" },
    ],
    [{ "p.rego": "package p\n\ndeny := true\n" }, { entrypoint: "No package declares a rule named allow" }],
    [{ "a.rego": allows("a"), "b.rego": allows("b") }, { entrypoint: `${several} with 'entrypoint: true': 0 are` }],
  ] as const)
    await refused(server, () => rego.publish(at, "broken", { files }), invalidPolicy(errors));
  assert.is((await rego.policies(at, "/broken")).status, 404);
});

test("refuses files that break the limits of a bundle", async () => {
  const at = server.given.org();
  const send = (files: unknown) => () => rego.publish(at, "limits", { files });
  const tooMany = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`f${n}.txt`, ""]));
  await refused(server, send(tooMany), bad("policy bundle holds 101 files, over the limit of 100"));
  await refused(
    server,
    send({ "p.rego": "x".repeat(1_048_571) }),
    bad("policy bundle is 1048577 bytes, over the 1048576 byte limit"),
  );
  const thousands = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`f${n}.txt`, ""]));
  await refused(server, send(thousands), bad("policy bundle holds 10000 files, over the limit of 100"));
  await refused(server, send({}), failed({ files: "Input must NOT have fewer than 1 properties [input: {}]" }));
  await refused(
    server,
    send({ "../p.rego": "", "/p.rego": "", "a//b.rego": "", "a\\b": "", "c\u0001": "" }),
    failed({
      "files.../p.rego": "The path must not contain '..'",
      "files./p.rego": "The path must be relative to the bundle",
      "files.a//b.rego": "The path must not contain empty directories or '.'",
      "files.a\\b": "The path must use '/' between directories",
      "files.c\u0001": "The path must not contain control characters",
    }),
  );
  await refused(
    server,
    send({ a: "", "a/b.rego": "" }),
    failed({ "files.a/b.rego": "'a' is a file, so it cannot be a directory" }),
  );
  await refused(
    server,
    send({ "p.rego": "a\u0000b" }),
    failed({ "files.p.rego": "String should not contain a NUL character" }),
  );
  const key = "A key of the object is not acceptable";
  await refused(
    server,
    send({ "p\u0000.rego": "" }),
    failed({ files: `${key}: String should not contain a NUL character` }),
  );
  await refused(
    server,
    send({ "\ud800.rego": "" }),
    failed({ files: `${key}: String should be valid Unicode without lone surrogates` }),
  );
  await refused(
    server,
    send({ "p.rego": "\ud800" }),
    failed({ "files.p.rego": "String should be valid Unicode without lone surrogates" }),
  );
  await refused(server, () => rego.publish(at, "limits", {}), failed({ files: "Field required" }));
});

/** A tar of one file whose header has these bytes as the name. */
function withName(name: Buffer): Buffer {
  const archive = gunzipSync(archiveOf([["x".repeat(name.length), COMPLIANT]]));
  name.copy(archive);
  const head = archive.subarray(0, 512);
  // The checksum field counts as spaces.
  const sum = head.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  archive.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return archive;
}
/** The same at the begin of a name of 300 characters, which is in a pax record. */
function withLongName(name: Buffer): Buffer {
  const archive = gunzipSync(archiveOf([["y".repeat(300), COMPLIANT]]));
  name.copy(archive, archive.indexOf("y".repeat(300)));
  return archive;
}

test("refuses archives that are none, leave the bundle, or are bombs", async () => {
  const at = server.given.org();
  const send = (bytes: Buffer) => () => sendArchive(at, "archives", { bytes });
  const none = "The policy bundle is not a gzipped tar archive";
  await refused(server, send(Buffer.from("hello")), bad(none));
  await refused(
    server,
    send(gzipSync("hello")),
    bad("The policy bundle cannot be unpacked: the archive is cut off after 5 bytes"),
  );
  const tooLarge = bad("policy bundle is over the limit of 100 files and 1048576 bytes");
  await refused(server, send(gzipSync(Buffer.alloc(64 << 20))), tooLarge);
  await refused(server, send(archiveOf([["p.rego", "x".repeat(2 << 20)]])), tooLarge);
  await refused(server, send(archiveOf(Array.from({ length: 10_000 }, (_, n) => [`f${n}`, ""] as const))), tooLarge);
  await refused(
    server,
    send(archiveOf([["p.rego", "x".repeat(1_500_000)]])),
    bad("policy bundle is 1500006 bytes, over the 1048576 byte limit"),
  );
  await refused(
    server,
    send(archiveOf(Array.from({ length: 101 }, (_, n) => [`f${n}`, ""] as const))),
    bad("policy bundle holds 101 files, over the limit of 100"),
  );
  await refused(server, send(archiveOf([])), bad("policy bundle holds no files"));
  await refused(
    server,
    send(archiveOf([["../p.rego", COMPLIANT]])),
    failed({ "files.../p.rego": "The path must not contain '..'" }),
  );
  await refused(
    server,
    send(
      archiveOf([
        ["p.rego", "a"],
        ["./p.rego", "b"],
      ]),
    ),
    bad("The policy bundle contains 'p.rego' twice"),
  );
  await refused(
    server,
    send(archiveOf([["p.rego", "a\u0000b"]])),
    failed({ "files.p.rego": "The source is not valid text" }),
  );
  await refused(
    server,
    send(archiveOf([["p.rego", Buffer.from([0xff, 0xfe])]])),
    bad("'p.rego' of the policy bundle is not UTF-8 text"),
  );
  // A name that is decoded with replacements would be the name of another file.
  const name = Buffer.from("p\u00c3(", "latin1");
  const notText = (rest: string) =>
    bad(`The policy bundle cannot be unpacked: the name 'p\ufffd(${rest}' is not UTF-8 text`);
  await refused(server, send(gzipSync(withName(name))), notText(""));
  await refused(server, send(gzipSync(withLongName(name))), notText("y".repeat(297)));
  await refused(
    server,
    send(gzipSync(withLongName(Buffer.from("p\0")))),
    failed({ [`files.p\0${"y".repeat(298)}`]: "The path must not contain control characters" }),
  );
  await refused(
    server,
    () => sendArchive(at, "archives", { bytes: archiveOf([["p.rego", COMPLIANT]]), json: { files: { "p.rego": "" } } }),
    failed({ files: "The files are given twice: in the JSON and as an archive" }),
  );
});

test("a policy or version that is not there is told", async () => {
  const at = server.given.org();
  await rego.publish(at, "known", { files: { "p.rego": COMPLIANT } });
  const noPolicy = { status: 404, body: { message: `Rego policy 'none' does not exist in org '${at.org}'` } };
  for (const path of ["/none", "/none/versions", "/none/versions/1", "/none/versions/1/bundle"])
    await refused(server, () => rego.policies(at, path), noPolicy);
  await refused(server, () => put(at, "none/archive"), noPolicy);
  await refused(server, () => patch(at, "none", { name: "x" }), noPolicy);
  for (const [path, shown] of [
    ["/known?version=2", "2"],
    ["/known/versions/v7", "7"],
    ["/known/versions/latest", "latest"],
    ["/known/versions/0/bundle", "0"],
  ] as const)
    await refused(server, () => rego.policies(at, path), {
      status: 404,
      body: { message: `Rego policy 'known' has no version ${shown}` },
    });
});

test("what a newer client sends and this server refuses is counted by its names", async () => {
  const at = server.given.org();
  const send = (path: string, body: unknown) =>
    server.call("POST", path, { key: at.key, body, headers: { "User-Agent": "Kosli/v2.60.0" } });
  await send(`/rego-policies/${at.org}`, { identifier: "x", files: { "p.rego": COMPLIANT }, labels: {} });
  await send(`/evaluations/${at.org}`, { context: { trails: [], window: 1 }, policy: { identifier: "x" } });
  await send(`/rego-policies/${at.org}/x/promote`, {});
  server.store.unknownInputs.flush(1);
  const organization = server.store.organizations.find(at.org) as { id: number };
  assert.equal(
    server.store.unknownInputs
      .listByOrganization(organization.id)
      .map(({ client, kind, operation, name }) => [client, kind, operation, name])
      .sort(),
    [
      ["Kosli/v2.60.0", "key", "post_rego_evaluation", "context.window"],
      ["Kosli/v2.60.0", "key", "post_rego_policy", "labels"],
      ["Kosli/v2.60.0", "route", "POST /rego-policies/*/*/promote", ""],
    ],
  );
});

test("what a newer client asks for is logged once for its key, by its shape and without values", async () => {
  const at = server.given.org();
  const lines = (): object[] =>
    server.lines
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => /^a client sent a request that this server does not know/.test(msg))
      .filter(({ client }) => client === "Kosli/v2.61.0")
      .map(({ client, operation, contentType, fields }) => ({ client, operation, contentType, fields }));
  const headers = { "User-Agent": "Kosli/v2.61.0" };
  const path = `/rego-policies/${at.org}/secret-name/promote`;
  const { status, body } = await server.call("POST", path, { key: at.key, body: { stage: "s3cret", by: 1 }, headers });
  assert.is(status, 404);
  assert.match(body.message, /not found/i);
  await server.call("POST", path, { key: at.key, body: { stage: "again" }, headers });
  await server.call("POST", path, { key: "no-such-key", body: { stage: "again" }, headers });
  const form = { json: { identifier: "x" }, fields: { note: "s3cret" } };
  await server.call("PUT", `/evaluations/${at.org}/x/judge`, { key: at.key, form, headers });
  await server.call("PATCH", `/evaluations/${at.org}/x/judge`, { key: at.key, body: "x".repeat(70_000), headers });
  await server.call("POST", path, { key: at.key, body: {}, headers: { "User-Agent": "curl/8.5.0" } });
  const known = { client: "Kosli/v2.61.0" };
  assert.equal(lines(), [
    {
      ...known,
      operation: "POST /rego-policies/*/*/promote",
      contentType: "application/json",
      fields: ["stage", "by"],
    },
    { ...known, operation: "PUT /evaluations/*/*/judge", contentType: "multipart/form-data", fields: ["data_json"] },
    { ...known, operation: "PATCH /evaluations/*/*/judge", contentType: "application/json", fields: null },
  ]);
  assert.not.match(JSON.stringify(lines()), /s3cret|secret-name/);
});

test.run();
