import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/attestations/trail-attestations");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

async function given() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const ids = [
    await server.given.attestation(at, { flow, trail, name: "review" }),
    await server.given.attestation(at, { flow, trail, name: "scan", fingerprint }),
    await server.given.attestation(at, { flow, trail, name: "scan", fingerprint, is_compliant: false }),
  ];
  const other = await server.given.attestation(at, { flow, trail: await server.given.trail(at, { flow }) });
  const list = async (query = "", name = trail) =>
    server.call("GET", `/attestations/${at.org}/${flow}/trail/${name}${query}`, { key: at.key });
  const idsOf = async (query = ""): Promise<string[]> =>
    (await list(query)).body.data.map(({ attestation_id: id }: { attestation_id: string }) => id);
  return { ids, other, list, idsOf };
}

test("the records of a trail and of its artifacts are listed, newest first, in pages", async () => {
  const { ids, list, idsOf } = await given();
  assert.equal(await idsOf(), [...ids].reverse());
  const page = (await list("?per_page=2&page=2")).body;
  assert.equal(
    [page.data.map(({ attestation_name: name }: { attestation_name: string }) => name), page.pagination],
    [["review"], { total: 3, page: 2, per_page: 2, page_count: 2 }],
  );
});

test("records are selected by their name, or by their ids; those of another trail are never shown", async () => {
  const { ids, other, idsOf } = await given();
  const [review = "", first = "", second = ""] = ids;
  assert.equal(await idsOf("?attestation_name=scan"), [second, first]);
  assert.equal(await idsOf(`?attestation_id=${review}&attestation_id=${second}`), [second, review]);
  assert.equal(await idsOf(`?attestation_id=${other}`), []);
  assert.equal(await idsOf("?attestation_name=nothing"), []);
});

test("both filters at once, more than a hundred ids, and an unknown trail are refused", async () => {
  const { list } = await given();
  const many = Array.from({ length: 101 }, (_, at) => `attestation_id=${at}`).join("&");
  assert.equal(
    [
      (await list("?attestation_name=scan&attestation_id=x")).body,
      (await list(`?${many}`)).status,
      (await list("?per_page=101")).status,
      (await list("", "none")).status,
    ],
    [{ message: "Only one of 'attestation_id' and 'attestation_name' can be given" }, 400, 400, 404],
  );
});

test.run();
