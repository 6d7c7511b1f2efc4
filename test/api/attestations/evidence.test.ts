/**
 * Evidence from upload to download: the bytes, the headers, and refusals that leave nothing behind; with small files in
 * the database, and with all of them on the disk.
 */
import { createHash } from "node:crypto";
import { chmodSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, Part, TestServer } from "../../given.ts";

for (const [place, smallEvidence] of [
  ["in the database", 65_536],
  ["in files", 0],
] as const) {
  const test = suite(`api/attestations/evidence: ${place}`);
  const LIMIT = 1 << 20;
  let server: TestServer;
  test.before(
    async () => void (server = await startServer({ limits: { evidence: LIMIT, smallEvidence, form: 4 << 20 } })),
  );
  test.after(() => server.stop());

  type Place = { org: string; key: string; flow: string; trail: string };
  type File = NonNullable<Part["file"]>;
  const sha256 = (content: string | Buffer): string => createHash("sha256").update(content).digest("hex");
  /** Large enough to be staged on the disk, with distinct content. */
  const bytes = (size: number): Buffer => {
    const content = Buffer.alloc(size);
    for (let index = 0; index < size; index += 4)
      content.writeUInt32LE((index * 2_654_435_761) >>> 0, Math.min(index, size - 4));
    content.write(fresh("content"));
    return content;
  };
  /** Every file below the data directory of the server. */
  const onDisk = (): string[] =>
    ["evidence", "staging"]
      .flatMap((name) =>
        readdirSync(join(server.directory, name), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => join(entry.parentPath, entry.name)),
      )
      .sort();

  async function givenPlace(): Promise<Place> {
    const at = server.given.org();
    return { ...at, flow: await server.given.flow(at), trail: fresh("trail") };
  }
  const file = (content: string | Buffer, filename = "evidence.tgz", type?: string): File => ({
    name: "attachment_file",
    filename,
    content,
    ...(type === undefined ? {} : { type }),
  });
  const attest = (at: Place, evidence: File): Promise<string> =>
    server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "scan", file: evidence });
  const post = (
    at: Place,
    json: unknown,
    evidence: File,
    path = `${at.flow}/trail/${at.trail}/generic`,
  ): Promise<Answer> =>
    server.call("POST", `/attestations/${at.org}/${path}`, { key: at.key, form: { json, file: evidence } });
  const evidencePath = (at: Place, id: string): string =>
    `/attestations/${at.org}/${at.flow}/trail/${at.trail}/attestation/${id}/evidence`;
  async function download(at: Place, id: string, headers: Record<string, string> = {}, method = "GET") {
    const response = await fetch(`${server.url}/api/v2${evidencePath(at, id)}`, {
      method,
      headers: { Authorization: `Bearer ${at.key}`, ...headers },
    });
    return { status: response.status, headers: response.headers, content: Buffer.from(await response.arrayBuffer()) };
  }

  for (const size of [0, 1, 300_000, LIMIT])
    test(`returns a file of ${size} bytes unchanged`, async () => {
      const at = await givenPlace();
      const content = size < 40 ? Buffer.alloc(size, "x") : bytes(size);
      const id = await attest(at, file(content, "evidence.tgz", "application/gzip"));
      const { body } = await server.call("GET", `/attestations/${at.org}?attestation_id=${id}`, { key: at.key });
      const [record] = body.data;
      const link = `http://assay.test/api/v2${evidencePath(at, id)}`;
      const orgId = server.db
        .prepare("SELECT public_id FROM organizations WHERE name = ?")
        .pluck()
        .get(at.org) as string;
      assert.equal(
        {
          evidence_archive_fingerprint: record.evidence_archive_fingerprint,
          evidence_archive_path: record.evidence_archive_path,
        },
        {
          evidence_archive_fingerprint: sha256(content),
          evidence_archive_path: `${orgId}/attestations/${id}/evidence.tgz`,
        },
      );
      assert.equal(record._links, {
        self: { href: `http://assay.test/api/v2/attestations/${at.org}?attestation_id=${id}` },
        evidence: { href: link },
      });

      const whole = await download(at, id);
      assert.is(whole.status, 200);
      assert.ok(whole.content.equals(content));
      const header = (name: string) => whole.headers.get(name);
      assert.equal(
        {
          "Content-Type": header("Content-Type"),
          "Content-Length": header("Content-Length"),
          ETag: header("ETag"),
          "Accept-Ranges": header("Accept-Ranges"),
          "Content-Disposition": header("Content-Disposition"),
          "X-Content-Type-Options": header("X-Content-Type-Options"),
        },
        {
          "Content-Type": "application/gzip",
          "Content-Length": String(size),
          ETag: `"${sha256(content)}"`,
          "Accept-Ranges": "bytes",
          "Content-Disposition": 'attachment; filename="evidence.tgz"',
          "X-Content-Type-Options": "nosniff",
        },
      );
    });

  test("keeps the file name without directories, and sends a non-ASCII one in both encodings", async () => {
    const at = await givenPlace();
    for (const [sent, disposition] of [
      ["report.xml", 'attachment; filename="report.xml"'],
      [
        "Prüfbericht 日本.pdf",
        "attachment; filename=\"Pr_fbericht __.pdf\"; filename*=UTF-8''Pr%C3%BCfbericht%20%E6%97%A5%E6%9C%AC.pdf",
      ],
      ["50%.txt", "attachment; filename=\"50_.txt\"; filename*=UTF-8''50%25.txt"],
      ["it's (1).txt", 'attachment; filename="it\'s (1).txt"'],
      ["../../etc/passwd", 'attachment; filename="passwd"'],
      ["C:\\temp\\a.txt", 'attachment; filename="a.txt"'],
    ] as const) {
      const { headers } = await download(at, await attest(at, file(fresh("x"), sent)));
      assert.is(headers.get("Content-Disposition"), disposition, sent);
    }
  });

  test("returns the uploaded content type, always as an attachment", async () => {
    const at = await givenPlace();
    for (const [sent, received] of [
      ["application/octet-stream", "application/octet-stream"],
      ["application/vnd.sarif+json", "application/vnd.sarif+json"],
      ["image/svg+xml", "image/svg+xml"],
      ["text/html", "text/html"],
    ] as const) {
      const { headers } = await download(at, await attest(at, file(fresh("x"), "a", sent)));
      assert.is(headers.get("Content-Type"), received);
      assert.match(headers.get("Content-Disposition") ?? "", /^attachment/);
    }
  });

  test("serves ranges: 206 with the part, 416 outside, the whole file for anything but a single range", async () => {
    const at = await givenPlace();
    const content = bytes(200_000);
    const id = await attest(at, file(content));
    const etag = `"${sha256(content)}"`;
    for (const [range, start, end] of [
      ["bytes=0-0", 0, 0],
      ["bytes=100-", 100, 199_999],
      ["bytes=-5", 199_995, 199_999],
      ["bytes=199999-900000", 199_999, 199_999],
    ] as const) {
      const part = await download(at, id, { Range: range });
      assert.is(part.status, 206, range);
      assert.ok(part.content.equals(content.subarray(start, end + 1)));
      assert.equal(
        {
          "Content-Range": part.headers.get("Content-Range"),
          "Content-Length": part.headers.get("Content-Length"),
          ETag: part.headers.get("ETag"),
        },
        { "Content-Range": `bytes ${start}-${end}/200000`, "Content-Length": String(end - start + 1), ETag: etag },
      );
    }
    for (const range of ["bytes=200000-", "bytes=-0"]) {
      const answer = await server.call("GET", evidencePath(at, id), { key: at.key, headers: { Range: range } });
      assert.equal(
        { status: answer.status, body: answer.body, "Content-Range": answer.headers.get("Content-Range") },
        {
          status: 416,
          body: { message: "The requested range lies outside the file of 200000 bytes" },
          "Content-Range": "bytes */200000",
        },
      );
    }
    for (const headers of [
      { Range: "bytes=0-1,3-4" },
      { Range: "lines=1-2" },
      { Range: "bytes=5-1" },
      { Range: "bytes=0-1", "If-Range": '"other"' },
    ] as Record<string, string>[]) {
      const whole = await download(at, id, headers);
      assert.is(whole.status, 200);
      assert.is(whole.content.length, content.length);
    }
    assert.is((await download(at, id, { Range: "bytes=0-1", "If-Range": etag })).status, 206);
  });

  test("responds with 304 to clients that have the file, and to HEAD with the headers", async () => {
    const at = await givenPlace();
    const content = fresh("content");
    const id = await attest(at, file(content));
    const etag = `"${sha256(content)}"`;
    for (const tags of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
      const { status, headers, content: nothing } = await download(at, id, { "If-None-Match": tags });
      assert.equal(
        { status, ETag: headers.get("ETag"), "nothing.length": nothing.length },
        { status: 304, ETag: etag, "nothing.length": 0 },
      );
    }
    assert.is((await download(at, id, { "If-None-Match": '"x"' })).status, 200);
    const head = await download(at, id, {}, "HEAD");
    assert.equal(
      {
        status: head.status,
        "Content-Length": head.headers.get("Content-Length"),
        "content.length": head.content.length,
      },
      { status: 200, "Content-Length": String(content.length), "content.length": 0 },
    );
  });

  test("stores the same content once, and keeps each record's own file name", async () => {
    const [at, other] = [await givenPlace(), await givenPlace()];
    const content = fresh("same");
    const first = await attest(at, file(content, "a.txt"));
    const stored = () => [
      ...onDisk(),
      ...server.db.prepare("SELECT digest FROM small_evidence ORDER BY digest").pluck().all(),
    ];
    const before = stored();
    const [second, third] = [await attest(at, file(content, "b.txt")), await attest(other, file(content, "c.txt"))];
    assert.equal(stored(), before);
    for (const [where, id, name] of [
      [at, first, "a.txt"],
      [at, second, "b.txt"],
      [other, third, "c.txt"],
    ] as const) {
      const { headers, content: received } = await download(where, id);
      assert.equal(
        { "Content-Disposition": headers.get("Content-Disposition"), received: received.toString() },
        { "Content-Disposition": `attachment; filename="${name}"`, received: content },
      );
    }
  });

  test("unknown ids, other trails, other organizations and records without a file are 404", async () => {
    const [at, other] = [await givenPlace(), await givenPlace()];
    const id = await attest(at, file(fresh("x")));
    const bare = await server.given.attestation(at, { flow: at.flow, trail: at.trail });
    const elsewhere = await server.given.attestation(at, { flow: at.flow, trail: "elsewhere", file: file(fresh("x")) });
    const foreign = await attest(other, file(fresh("x")));
    const unknown = (what: string) =>
      `Attestation '${what}' does not exist in trail '${at.trail}' of flow '${at.flow}' belonging to ` +
      `organization '${at.org}'`;
    const base = `/attestations/${at.org}/${at.flow}`;
    for (const [path, message] of [
      [`${base}/trail/${at.trail}/attestation/nothing/evidence`, unknown("nothing")],
      [`${base}/trail/${at.trail}/attestation/${elsewhere}/evidence`, unknown(elsewhere)],
      [`${base}/trail/${at.trail}/attestation/${foreign}/evidence`, unknown(foreign)],
      [
        `${base}/trail/${at.trail}/attestation/${bare}/evidence`,
        `Attestation '${bare}' in organization '${at.org}' has no evidence file`,
      ],
      [
        `${base}/trail/nothing/attestation/${id}/evidence`,
        `Trail with name 'nothing' does not exist for Organization '${at.org}' and Flow '${at.flow}'`,
      ],
      [
        `/attestations/${at.org}/nothing/trail/${at.trail}/attestation/${id}/evidence`,
        `Flow named 'nothing' does not exist for organization '${at.org}'`,
      ],
    ] as const) {
      const answer = await server.call("GET", path, { key: at.key });
      assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } });
    }
    const stranger = await server.call("GET", evidencePath(at, id), { key: other.key });
    assert.is(stranger.status, 403);
  });

  test("a refusal after the upload leaves no staged file, no stored file and no row", async () => {
    const at = await givenPlace();
    const archived = await server.given.flow(at);
    await server.call("PUT", `/flows/${at.org}/${archived}/archive`, { key: at.key });
    const good = { attestation_name: "scan", is_compliant: true };
    const rows = () =>
      ["trails", "attestations", "trail_events", "audit_log", "small_evidence"].map((table) =>
        server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
      );
    const before = [onDisk(), rows()];
    const cases: [what: string, status: number, json: unknown, path?: string][] = [
      ["a field that does not fit", 400, { ...good, description: 7 }],
      ["JSON that is none", 400, "{"],
      ["an unknown fingerprint", 404, { ...good, artifact_fingerprint: freshFingerprint() }],
      ["a target that nothing identifies", 400, { ...good, target_artifacts: ["app"] }],
      ["a repository without an address", 400, { ...good, repo_info: { id: "1", name: "n", url: "x" } }],
      ["an unknown flow", 404, good, "nothing/trail/t/generic"],
      ["an archived flow", 404, good, `${archived}/trail/t/generic`],
      ["a name that no trail can have", 400, good, `${at.flow}/trail/-t/generic`],
      ["a path that takes no reports", 405, good, `${at.flow}/trail/t/nothing`],
    ];
    for (const [what, status, json, path] of cases)
      for (const size of [100, 400_000]) {
        const answer = await post(at, json, file(bytes(size)), path);
        assert.is(answer.status, status, `${what}: ${answer.text}`);
        assert.equal([onDisk(), rows()], before, what);
      }
    const reader = server.given.user(at.org, "reader");
    assert.is((await post({ ...at, key: reader }, good, file(bytes(400_000)))).status, 403);
    assert.equal([onDisk(), rows()], before);
  });

  test("a file over the limit is 413 naming the limit, and one of exactly the limit is accepted", async () => {
    const at = await givenPlace();
    const before = onDisk();
    const answer = await post(at, { attestation_name: "scan", is_compliant: true }, file(bytes(LIMIT + 1)));
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 413, body: { message: "File size exceeds the 1MB limit" } },
    );
    assert.equal(onDisk(), before);
    assert.is((await post(at, { attestation_name: "scan", is_compliant: true }, file(bytes(LIMIT)))).status, 201);
  });

  test("an override accepts no file", async () => {
    const at = await givenPlace();
    const before = onDisk();
    const json = {
      attestation_name: "scan",
      reason: "r",
      new_compliance_status: true,
      original_attestation_type: "snyk",
    };
    assert.is((await post(at, json, file(bytes(400_000)), `${at.flow}/trail/${at.trail}/override`)).status, 400);
    assert.equal(onDisk(), before);
  });

  test("evidence of an artifact is found through its trail, and the artifact links to it", async () => {
    const at = await givenPlace();
    const content = fresh("content");
    const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app" });
    const id = await server.given.attestation(at, {
      flow: at.flow,
      trail: at.trail,
      name: "scan",
      fingerprint,
      file: file(content),
    });
    assert.is((await download(at, id)).content.toString(), content);
    const { body } = await server.call("GET", `/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`, {
      key: at.key,
    });
    assert.equal(
      {
        evidence_url: body.evidence.scan.evidence_url,
        evidence_archive_fingerprint: body.evidence.scan.evidence_archive_fingerprint,
      },
      {
        evidence_url: `http://assay.test/api/v2${evidencePath(at, id)}`,
        evidence_archive_fingerprint: sha256(content),
      },
    );
  });

  test("damaged evidence is replaced by the next upload of the file; until then no range of it is sent", async () => {
    const at = await givenPlace();
    const content = bytes(40_000);
    const id = await attest(at, file(content));
    assert.is((await download(at, id, { Range: "bytes=0-9" })).status, 206);
    const digest = sha256(content);
    const damaged = Buffer.from(content);
    damaged.write("oops", 30_000);
    if (smallEvidence > 0) {
      server.db.exec("DROP TRIGGER small_evidence_is_final");
      server.db.prepare("UPDATE small_evidence SET content = ? WHERE digest = ?").run(damaged, digest);
    } else {
      const path = join(server.directory, "evidence", digest.slice(0, 2), digest.slice(2));
      chmodSync(path, 0o600);
      writeFileSync(path, damaged);
    }
    for (const range of ["bytes=0-9", "bytes=30000-30003", "bytes=-5"]) {
      const refused = await server.call("GET", evidencePath(at, id), { key: at.key, headers: { Range: range } });
      assert.is(refused.status, 500, range);
      assert.match(refused.body.message, /^Internal server error/);
      assert.match(server.lines.join("\n"), `evidence ${digest} is damaged`);
    }
    const again = await attest(at, file(content));
    assert.equal(server.repairs.splice(0), [digest]);
    for (const one of [id, again]) assert.ok((await download(at, one)).content.equals(content));
    assert.equal((await download(at, id, { Range: "bytes=30000-30003" })).content, content.subarray(30_000, 30_004));
    await attest(at, file(content));
    assert.equal(server.repairs, []);
  });

  test.run();
}
