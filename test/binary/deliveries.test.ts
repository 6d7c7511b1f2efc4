// The executable as a sender: the libraries for webhooks and mail are packed into it, and a process that is killed in
// the middle of a delivery sends the message again.

import { SMTPServer } from "smtp-server";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { RenderedMessage } from "../../src/domain/notification/render.ts";
import { look } from "../cli/in-process.ts";
import { endReceivers, receiver } from "../notifications/given.ts";
import { inDirectory, run, start } from "./executable.ts";

const test = suite("binary/deliveries");
test.after(endReceivers);

const init = (data: string) => run(["init", "--data", data, "--org", "acme", "--user", "ops"]);
const serve = (data: string, ...options: string[]) =>
  start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--webhook-allow", "127.0.0.1", ...options]);
const addMessage = (data: string, message: RenderedMessage): string =>
  look(data, (store) =>
    store.outbox.add({
      organizationId: store.organizations.find("acme")?.id as number,
      queue: message.type,
      targetId: null,
      subject: "test",
      message,
    }),
  );
const listStates = (data: string): unknown =>
  look(data, (_, db) => db.prepare("SELECT type, state FROM deliveries ORDER BY id").raw().all());

test("delivers webhooks and mail", () =>
  inDirectory(async (data) => {
    await init(data);
    const { received, url } = await receiver(200);
    const mails: string[] = [];
    const mail = new SMTPServer({
      authOptional: true,
      logger: false,
      closeTimeout: 10,
      onData(stream, session, done) {
        stream.resume();
        stream.on("end", () => {
          mails.push(...session.envelope.rcptTo.map(({ address }) => address));
          done();
        });
      },
    });
    await new Promise<void>((resolve) => mail.listen(0, "127.0.0.1", resolve));
    const { port } = mail.server.address() as AddressInfo;
    const server = await serve(
      data,
      "--smtp-url",
      `smtp://127.0.0.1:${port}`,
      "--smtp-from",
      "Assay <a@b.example>",
      "--smtp-tls",
      "off",
    );
    addMessage(data, { type: "WEBHOOK", webhook: url("127.0.0.1"), body: { event_type: "STARTED_ARTIFACT" } });
    addMessage(data, { type: "EMAIL", emails: ["ann@x.example"], subject: "s", text: "t", html: "<p>h</p>" });
    await server.wrote(/"type":"WEBHOOK".*"outcome":"delivered"/);
    await server.wrote(/"type":"EMAIL".*"outcome":"delivered"/);
    assert.equal({ webhooks: received.length, mails }, { webhooks: 1, mails: ["ann@x.example"] });
    await server.stop();
    await new Promise<void>((resolve) => mail.close(resolve));
    assert.equal(listStates(data), [
      ["WEBHOOK", "delivered"],
      ["EMAIL", "delivered"],
    ]);
  }));

test("retries a webhook after the restart when the process was killed before the receiver answered", () =>
  inDirectory(async (data) => {
    await init(data);
    let answering = false;
    const { received, url, until } = await receiver((_, response) => void (answering && response.end()));
    const first = await serve(data);
    addMessage(data, { type: "WEBHOOK", webhook: url("127.0.0.1"), body: { n: 1 } });
    await until(() => received.length === 1);
    await first.stop("SIGKILL");
    assert.equal(listStates(data), [["WEBHOOK", "waiting"]]);
    answering = true;
    const second = await serve(data);
    await second.wrote(/"outcome":"delivered"/);
    await second.stop();
    assert.equal(listStates(data), [["WEBHOOK", "delivered"]]);
    assert.equal(
      received.map(({ headers, body }) => [headers["x-assay-delivery"], body]),
      Array(2).fill([received[0]?.headers["x-assay-delivery"], '{"n":1}']),
    );
  }));

test.run();
