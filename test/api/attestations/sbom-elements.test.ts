/** The minimum elements that an SBOM lacks (newer-clients 2.4): what is looked at, and what is refused. */
import { hash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/attestations/sbom-elements");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const SUMMARY = {
  created_at: "2026-01-31T12:00:00Z",
  tools: ["syft 1.18.0"],
  subject: { name: "app" },
  package_count: 2,
};

async function place() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const report = (content: string | null, more: object = {}): Promise<string> =>
    server.given.attestation(at, {
      flow,
      trail,
      kind: "system",
      name: "bom",
      type_name: "sbom",
      attestation_data: {
        format: "cyclonedx-1.6",
        original_fingerprint: hash("sha256", content ?? ""),
        document: SUMMARY,
        ...more,
      },
      ...(content === null ? {} : { file: { name: "attachment_file", filename: "bom.json", content } }),
    });
  const get = (id: string, key = at.key, name = trail) =>
    server.call("GET", `/attestations/${at.org}/${flow}/trail/${name}/attestation/${id}/sbom`, { key });
  return { at, flow, trail, report, get };
}
const cycloneDx = (components: object[]): string => JSON.stringify({ bomFormat: "CycloneDX", components });

test("reads the attached document, small and large", async () => {
  const { report, get } = await place();
  for (const count of [2, 5_000]) {
    const components = Array.from({ length: count }, (_, index) => ({ name: `c${index}`, version: "1" }));
    const id = await report(cycloneDx([...components, { name: "bare" }]));
    const { status, body } = await get(id);
    assert.is(status, 200);
    const { missing, ...rest } = body;
    assert.equal(rest, {
      attestation_id: id,
      looked_at: "document",
      not_read: null,
      components: count + 1,
      unknown: [],
    });
    assert.equal(
      missing.find(({ element }: { element: string }) => element === "version"),
      { element: "version", words: "version", asked_by: ["CISA", "BSI"], components: 1 },
    );
    assert.equal(
      missing.map(({ element }: { element: string }) => element),
      "author timestamp tool context dependencies producer version identifier hash sha512 licence properties".split(
        " ",
      ),
    );
  }
});

test("without a document that it can read, says why, and what the report says", async () => {
  const { report, get } = await place();
  for (const [content, not_read] of [
    [null, "no file is attached"],
    ["<bom/>", "it is XML, which the server does not read"],
    ["", "it is neither CycloneDX nor SPDX in a form that the server reads"],
    [`{"bomFormat":"CycloneDX","components":[${"{},".repeat(200_000)}{}]}`, "it has more values than the server reads"],
    [" ".repeat(8 * 1024 * 1024 + 1), "it is larger than 8 MB"],
  ] as const) {
    const { status, body } = await get(await report(content));
    assert.is(status, 200);
    assert.equal(
      { ...body, attestation_id: null, unknown: body.unknown.length },
      { attestation_id: null, looked_at: "summary", not_read, components: 2, missing: [], unknown: 11 },
    );
  }
  const bare = await get(await report(null, { format: "spdx-2.3", document: null }));
  assert.equal(
    bare.body.missing.map(({ element, asked_by }: { element: string; asked_by: string[] }) => [element, ...asked_by]),
    [
      ["format", "BSI"],
      ["timestamp", "CISA", "BSI"],
      ["tool", "CISA"],
    ],
  );
  assert.is(bare.body.components, null);
});

test("reads what was reported whatever its size and order of keys", async () => {
  const { report, get } = await place();
  const { status, body } = await get(await report(null, { "1": 1e3, filler: "x".repeat(300_000) }));
  assert.equal(
    { status, components: body.components, missing: body.missing },
    { status: 200, components: 2, missing: [] },
  );
});

test("readers may ask; others and what is not an SBOM are refused", async () => {
  const { at, flow, trail, report, get } = await place();
  const id = await report(null);
  for (const role of ["reader", "snapshotter", "member"] as const)
    assert.is((await get(id, server.given.user(at.org, role))).status, 200);
  assert.is((await get(id, server.given.user(at.org, null))).status, 403);
  const generic = await server.given.attestation(at, { flow, trail });
  const other = await get(generic);
  assert.equal(
    { status: other.status, body: other.body },
    { status: 400, body: { message: `Attestation '${generic}' is of type 'generic' and not an SBOM` } },
  );
  const missing = await get("none");
  assert.equal(
    { status: missing.status, body: missing.body },
    {
      status: 404,
      body: {
        message:
          `Attestation 'none' does not exist in trail '${trail}' of flow '${flow}' belonging to organization ` +
          `'${at.org}'`,
      },
    },
  );
  const elsewhere = await server.given.trail(at, { flow });
  assert.is((await get(id, at.key, elsewhere)).status, 404);
});

test.run();
