/** Requests to hosts of the operator: internal ones too, but only with a trusted certificate. */
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createFetch } from "../../src/notifications/fetch.ts";
import { AUTHORITY, CERTIFICATE, KEY } from "./certificates.ts";

const test = suite("notifications/fetch");

test("accepts a certificate of the operator's CA for its own name only", async () => {
  const server = createServer(
    { cert: CERTIFICATE, key: KEY },
    (request, response) => void response.end(request.headers.host),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const lookup: Parameters<typeof createFetch>[1] = (_host, { all }, callback) =>
    all ? callback(null, [{ address: "127.0.0.1", family: 4 }]) : callback(null, "127.0.0.1", 4);
  const codeOf = (ca: readonly string[] | null, host: string) =>
    createFetch(ca, lookup)(`https://${host}:${port}/`, {}).then(
      (response) => response.text(),
      (error: Error) => (error.cause as { code?: string }).code,
    );
  try {
    assert.is(await codeOf([AUTHORITY], "hooks.assay.example"), `hooks.assay.example:${port}`);
    assert.is(await codeOf(null, "hooks.assay.example"), "UNABLE_TO_VERIFY_LEAF_SIGNATURE");
    assert.is(await codeOf([AUTHORITY], "id.assay.example"), "ERR_TLS_CERT_ALTNAME_INVALID");
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test.run();
