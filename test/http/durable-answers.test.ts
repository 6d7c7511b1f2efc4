/** What a server shows while the disk is slow. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";
import { until } from "../patience.ts";
import { setPassword, signIn } from "../web/browser.ts";

const test = suite("http/durable-answers");

/** A server whose syncs end when `release` is called. */
async function givenSlowDisk(work: (given: Given) => Promise<void>): Promise<void> {
  const waiting: ((error: unknown) => void)[] = [];
  let isSlow = false;
  let announce = (): void => undefined;
  const server = await startServer({
    sync(done) {
      if (!isSlow) {
        setImmediate(done, null);
        return;
      }
      waiting.push(done);
      announce();
    },
  });
  try {
    await work({
      server,
      slow: () => void (isSlow = true),
      /** Resolves when a sync waits. */
      syncing: () => (waiting.length > 0 ? Promise.resolve() : new Promise((resolve) => void (announce = resolve))),
      releaseOne: () => waiting.shift()?.(null),
      release() {
        isSlow = false;
        for (const done of waiting.splice(0)) done(null);
      },
    });
  } finally {
    for (const done of waiting.splice(0)) done(null);
    await server.stop();
  }
}
type Given = { server: TestServer; slow(): void; syncing(): Promise<void>; releaseOne(): void; release(): void };

/** Notes the status of an answer when it comes. */
function watch(name: string, answer: Promise<Answer | { status: number }>, answered: string[]): Promise<void> {
  return answer.then(({ status }) => void answered.push(`${name} ${status}`));
}

test("an answer that may show a commit waits until that is durable, and a health probe does not", () =>
  givenSlowDisk(async ({ server, slow, syncing, release }) => {
    const at = server.given.org();
    await setPassword(server, `${at.org}-admin`);
    const browser = await signIn(server, `${at.org}-admin`);
    slow();
    const answered: string[] = [];
    const { key } = at;
    const all = [
      watch(
        "write",
        server.call("PUT", `/flows/${at.org}/template_file`, { key, form: { json: { name: "new" } } }),
        answered,
      ),
    ];
    await syncing();
    all.push(
      watch("list", server.call("GET", `/flows/${at.org}`, { key }), answered),
      watch("single", server.call("GET", `/flows/${at.org}/new`, { key }), answered),
      watch("refusal", server.call("GET", `/flows/${at.org}/none`, { key }), answered),
      watch("page", browser.get(`/${at.org}/flows`), answered),
    );
    for (const path of ["//healthz", "//ready", "//readyz"])
      assert.equal((await server.call("GET", path)).status, 200, path);
    // By now the others were read: they arrived before the probes.
    assert.equal(answered, []);
    release();
    await Promise.all(all);
    assert.equal(answered.sort(), ["list 200", "page 200", "refusal 404", "single 200", "write 201"]);
  }));

test("without a commit that is not durable nothing waits", () =>
  givenSlowDisk(async ({ server, slow }) => {
    const at = server.given.org();
    await server.given.flow(at);
    await server.writer.idle();
    slow();
    assert.is((await server.call("GET", `/flows/${at.org}`, { key: at.key })).status, 200);
  }));

test("a kept answer waits for no commit that is not in it, and is kept when what it shows is durable", () =>
  givenSlowDisk(async ({ server, slow, syncing, release }) => {
    const at = server.given.org();
    const flow = await server.given.flow(at);
    const fingerprint = await server.given.artifact(at, { flow, trail: "one", name: "app" });
    const { key } = at;
    const path = `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`;
    const read = (): Promise<Answer> => server.call("GET", path, { key });
    const before = await read();
    assert.equal([before.status, (await read()).text], [200, before.text]);
    slow();
    const answered: string[] = [];
    const write = watch(
      "write",
      server.call("PUT", `/trails/${at.org}/${flow}`, { key, form: { json: { name: "two" } } }),
      answered,
    );
    await syncing();
    assert.is((await read()).text, before.text);
    assert.equal(answered, []);
    release();
    await write;
    // The same artifact changes: what is read before the disk has it waits, again and again.
    slow();
    const attest = watch(
      "attestation",
      server.call("POST", `/attestations/${at.org}/${flow}/trail/one/generic`, {
        key,
        form: { json: { attestation_name: "tests", is_compliant: false, artifact_fingerprint: fingerprint } },
      }),
      answered,
    );
    await syncing();
    const reads = [watch("first", read(), answered), watch("second", read(), answered)];
    assert.equal((await server.call("GET", "//ready")).status, 200);
    assert.equal(answered, ["write 201"]);
    release();
    await Promise.all([attest, ...reads]);
    assert.equal(answered.slice(1).sort(), ["attestation 201", "first 200", "second 200"]);
    assert.is.not((await read()).text, before.text);
  }));

test("a write waits for its own commit, and not for those after it", () =>
  givenSlowDisk(async ({ server, slow, syncing, releaseOne, release }) => {
    const at = server.given.org();
    const { key } = at;
    const answered: string[] = [];
    const create = (name: string): Promise<void> =>
      watch(name, server.call("PUT", `/flows/${at.org}/template_file`, { key, form: { json: { name } } }), answered);
    slow();
    const first = create("first");
    await syncing();
    const second = create("second");
    releaseOne();
    await first;
    await until(
      "the second commit",
      () => server.db.prepare("SELECT 1 FROM flows WHERE name = 'second'").get() !== undefined,
    );
    assert.equal(answered, ["first 201"]);
    release();
    await second;
    assert.equal(answered, ["first 201", "second 201"]);
  }));

test.run();
