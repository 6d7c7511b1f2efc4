/**
 * A message end to end: a change in a server, the outbox, a signed POST to a receiver, and its delivery
 * record.
 */
import { createServer } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { signatureOf } from "../../../src/notifications/signature.ts";
import { cli, inDirectory, look, start } from "../in-process.ts";

const test = suite("cli/commands/notifications");

type Received = { headers: IncomingHttpHeaders; text: string };

/** A receiver of POST requests that responds with `status`. */
async function receiver() {
  const received: Received[] = [];
  const listeners = new Set<() => void>();
  const answer = { status: 200 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      received.push({ headers: request.headers, text: Buffer.concat(chunks).toString() });
      response.writeHead(answer.status).end();
      for (const listener of listeners) listener();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    answer,
    /** Resolves after this many requests. */
    count: (wanted: number): Promise<void> =>
      new Promise((resolve) => {
        const look = (): void => {
          if (received.length >= wanted) resolve();
        };
        listeners.add(look);
        look();
      }),
    close: (): Promise<void> =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

test("a large report reaches a receiver as one signed message per artifact, in order", () =>
  inDirectory(async (data) => {
    const hook = await receiver();
    const key = (await cli(["init", "--org", "acme", "--user", "ada", "--data", data])).out.trim();
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--webhook-allow", "127.0.0.0/8"]);
    try {
      const url = /listening on (\S+)/.exec(await server.wrote(/API reference/))?.[1] ?? "";
      const call = async (method: string, path: string, body?: unknown) => {
        const response = await fetch(`${url}/api/v2${path}`, {
          method,
          headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return { status: response.status, body: (await response.json()) as any };
      };
      const many = Array.from({ length: 150 }, (_, n) => ({
        digests: { [`app-${String(n).padStart(3, "0")}`]: (n + 1).toString(16).padStart(64, "0") },
        creationTimestamp: 1,
      }));
      assert.is(
        (await call("PUT", "/environments/acme", { name: "prod", type: "server", description: "" })).status,
        201,
      );
      const action = {
        name: "all",
        environments: ["prod"],
        triggers: ["ON_STARTED_ARTIFACT"],
        targets: [{ type: "WEBHOOK", webhook: hook.url }],
      };
      assert.is((await call("PUT", "/actions/acme/environments", action)).status, 201);
      assert.is((await call("PUT", "/environments/acme/prod/report/server", { artifacts: many })).status, 201);
      await hook.count(150);

      const { webhooks } = JSON.parse((await cli(["action", "secret", "acme", "1", "--json", "--data", data])).out);
      assert.equal(
        webhooks.map(({ webhook }: { webhook: string }) => webhook),
        [hook.url],
      );
      for (const { headers, text } of hook.received) {
        const signature = String(headers["x-assay-signature"]);
        assert.is(signature, signatureOf(webhooks[0].secret, Number(/^t=(\d+),/.exec(signature)?.[1]), text));
      }
      const bodies = hook.received.map(({ text }) => JSON.parse(text));
      assert.equal(
        bodies.map(({ artifact }) => artifact.name),
        many.map(({ digests }) => Object.keys(digests)[0]),
      );
      assert.is(
        bodies[0].snapshot.html_url,
        `${url}/acme/environments/prod/1`,
        "the address follows from the port that was bound",
      );
      const { body } = await call("GET", "/actions/acme/1");
      assert.equal(
        { is_failing: body.is_failing, "typeof last_success_timestamp": typeof body.last_success_timestamp },
        { is_failing: false, "typeof last_success_timestamp": "number" },
      );
    } finally {
      assert.is((await server.stop()).code, 0);
      await hook.close();
    }
  }));

test("sends messages that were committed before the process ended after the restart", () =>
  inDirectory(async (data) => {
    const hook = await receiver();
    await cli(["init", "--org", "acme", "--user", "ada", "--data", data]);
    look(data, (store, db) => {
      const organization = store.organizations.find("acme") as { id: number };
      db.exec("BEGIN");
      const { id } = store.environments.create(organization.id, {
        name: "prod",
        type: "server",
        description: "",
        includeScaling: false,
        requireProvenance: false,
      });
      const targets = [{ type: "WEBHOOK" as const, target: { type: "WEBHOOK" as const, webhook: hook.url } }];
      store.actions.create(
        organization.id,
        { kind: "env", name: "a", triggers: ["ON_STARTED_ARTIFACT"], places: [id], targets, newSecret: () => "s" },
        { user: "ada", fromChat: false },
      );
      store.snapshotRecorder.record(store.environments.get(id), {
        cause: "report",
        artifacts: [{ name: "web", fingerprint: "a".repeat(64), instances: { created: [1] } }],
        actor: { publicId: "u", displayName: "U" },
      });
      // A worker had begun with it when the process ended.
      store.jobs.lease("notify", { at: 9e9, seconds: 60, limit: 1 });
      db.exec("COMMIT");
    });
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--webhook-allow", "127.0.0.0/8"]);
    try {
      await hook.count(1);
      assert.equal(
        hook.received.map(({ text }) => JSON.parse(text).artifact.name),
        ["web"],
      );
    } finally {
      assert.is((await server.stop()).code, 0);
      await hook.close();
    }
  }));

test.run();
