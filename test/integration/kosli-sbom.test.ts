/** `kosli attest sbom` in four formats, and refused: the released client against a server. */
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { inDirectory } from "../binary/executable.ts";
import { fresh, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { holdings } from "../http/socket.ts";
import { runProgram, worksHere } from "./programs.ts";

const test = suite("integration/kosli-sbom");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

// Older releases have no such command.
const hasCli = worksHere("kosli", "attest", "sbom", "--help");
if (!hasCli) console.log("skipped: kosli attest sbom, for want of kosli 2.41 or later");
const withCli = hasCli ? test : test.skip;

const TOOL = { vendor: "acme", name: "syft", version: "1.18.0" };
const CYCLONEDX = JSON.stringify({
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  metadata: {
    timestamp: "2026-01-31T12:00:00Z",
    tools: [TOOL],
    component: { type: "container", name: "app", version: "1.4", purl: "pkg:oci/app@1.4" },
  },
  components: [
    { type: "library", name: "a", version: "1" },
    { type: "library", name: "b" },
  ],
});
const XML =
  '<?xml version="1.0"?><bom xmlns="http://cyclonedx.org/schema/bom/1.5" version="1"><components>' +
  '<component type="library"><name>a</name><version>1</version></component></components></bom>';
const SPDX = JSON.stringify({
  spdxVersion: "SPDX-2.3",
  SPDXID: "SPDXRef-DOCUMENT",
  name: "app",
  dataLicense: "CC0-1.0",
  documentNamespace: "https://example.com/app",
  creationInfo: { created: "2026-01-31T12:00:00Z", creators: ["Tool: syft-1.18.0"] },
  documentDescribes: ["SPDXRef-a"],
  packages: [{ SPDXID: "SPDXRef-a", name: "a", versionInfo: "1", downloadLocation: "NOASSERTION" }],
});
const TAGS = `SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: app
DocumentNamespace: https://example.com/app
Creator: Tool: syft-1.18.0
Created: 2026-01-31T12:00:00Z

PackageName: a
SPDXID: SPDXRef-a
PackageVersion: 1
PackageDownloadLocation: NOASSERTION
`;

async function place() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  return { ...at, flow, trail: await server.given.trail(at, { flow }) };
}
type Place = Awaited<ReturnType<typeof place>>;

/** Runs the client on a file with this content. */
const attest = (at: Place, filename: string, content: string, name = "bom") =>
  inDirectory(async (directory) => {
    writeFileSync(join(directory, filename), content);
    const place = ["--flow", at.flow, "--trail", at.trail, "--org", at.org];
    const args = ["attest", "sbom", "--name", name, "--sbom-file", filename, ...place];
    const to = ["--host", server.url, "--api-token", at.key, "--max-api-retries", "0"];
    return runProgram("kosli", [...args, ...to, "--annotate", "stage=build"], { cwd: directory });
  });

for (const [format, filename, content, expected] of [
  ["CycloneDX JSON", "app.cdx.json", CYCLONEDX, { format: "cyclonedx-1.5", package_count: 2, looked_at: "document" }],
  ["CycloneDX XML", "app.cdx.xml", XML, { format: "cyclonedx-1.5", package_count: 1, looked_at: "summary" }],
  ["SPDX JSON", "app.spdx.json", SPDX, { format: "spdx-2.3", package_count: 1, looked_at: "document" }],
  ["SPDX tags and values", "app.spdx", TAGS, { format: "spdx-2.3", package_count: 1, looked_at: "document" }],
] as const)
  withCli(`the client reports ${format}`, async () => {
    const at = await place();
    const { code, text } = await attest(at, filename, content);
    assert.is(code, 0, text);
    assert.match(text, `sbom attestation 'bom' is reported to trail: ${at.trail}`);
    const { body } = await server.call("GET", `/attestations/${at.org}?type=sbom`, { key: at.key });
    const [row] = body.data;
    const digest = hash("sha256", content);
    const { document, ...data } = row.attestation_data;
    assert.equal(
      { data, count: document.package_count, evidence: row.evidence_archive_fingerprint, annotations: row.annotations },
      {
        data: { format: expected.format, original_fingerprint: digest },
        count: expected.package_count,
        evidence: digest,
        annotations: { sbom_format: expected.format, sbom_sha256: digest, stage: "build" },
      },
    );
    const path = `/attestations/${at.org}/${at.flow}/trail/${at.trail}/attestation/${row.attestation_id}`;
    assert.is((await server.call("GET", `${path}/evidence`, { key: at.key })).text, content);
    const elements = (await server.call("GET", `${path}/sbom`, { key: at.key })).body;
    assert.equal(
      { looked_at: elements.looked_at, components: elements.components },
      { looked_at: expected.looked_at, components: expected.package_count },
    );
  });

withCli("the client prints why a report is refused, and nothing of it is left", async () => {
  const at = await place();
  const before = holdings(server);
  const { code, text } = await attest({ ...at, flow: fresh("none") }, "app.cdx.json", CYCLONEDX);
  assert.is(code, 1);
  assert.match(text, "does not exist for organization");
  assert.equal(holdings(server), before);
});

test("the bodies that clients send are accepted, whether or not the client is here", async () => {
  const at = await place();
  for (const document of [
    {
      created_at: "2026-01-31T12:00:00Z",
      tools: ["syft 1.18.0"],
      subject: { name: "app", version: "1.4", purl: "pkg:oci/app@1.4", sha256: null },
      package_count: 2,
    },
    { created_at: null, tools: null, subject: null, package_count: 1 },
  ]) {
    const digest = hash("sha256", XML);
    const json = {
      annotations: { sbom_format: "cyclonedx-1.5", sbom_sha256: digest },
      attestation_data: { document, format: "cyclonedx-1.5", original_fingerprint: digest },
      attestation_name: "bom",
      type_name: "sbom",
      user_data: {},
    };
    const file = { name: "attachment_file", filename: "bom.xml", content: XML, type: "application/octet-stream" };
    const answer = await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${at.trail}/system`, {
      key: at.key,
      form: { json, file },
    });
    assert.is(answer.status, 201, answer.text);
  }
});

test.run();
