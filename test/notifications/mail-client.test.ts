/** E-mail to a real mail server: what arrives, what cannot be injected, and the outcome of each refusal. */
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { MailSettings } from "../../src/notifications/mail-client.ts";
import { AUTHORITY } from "./certificates.ts";
import { email, given, names } from "./given.ts";
import { endMailServers, fieldsOf, mailServer, refusal, senderFor } from "./mail-server.ts";
import type { Arrived } from "./mail-server.ts";

const test = suite("notifications/mail-client");

const opened: { close(): void }[] = [];
test.after(() => {
  endMailServers();
  for (const server of opened) server.close();
});

const NONE = { address: null, status: null, detail: null, retryAfter: null, pendingRecipients: null };
const LOOPBACK = { ...NONE, address: "127.0.0.1" };

test("sends over STARTTLS from the configured sender to all recipients, as text and HTML", async () => {
  const { sender, arrived, bell } = await mailServer();
  const outcome = await sender.send(
    email(["ann@x.example", "bob@y.example"], {
      subject: "Größe: prod",
      text: "plain\n.\ntext",
      html: "<b>page</b>",
    }),
  );
  assert.equal(outcome, { ...LOOPBACK, result: "accepted", publicError: null, status: 250 });
  const [message] = arrived as [Arrived];
  assert.equal(
    { from: message.from, to: message.to, secure: message.secure, user: message.user },
    { from: "assay@assay.example", to: ["ann@x.example", "bob@y.example"], secure: true, user: null },
  );
  const fields = fieldsOf(message.text);
  assert.is(fields["from"], "Assay <assay@assay.example>");
  assert.is(fields["to"], "ann@x.example, bob@y.example");
  assert.is(fields["subject"], "=?UTF-8?Q?Gr=C3=B6=C3=9Fe=3A_prod?=");
  assert.is(fields["message-id"], "<d-1@assay.example>");
  assert.is(fields["auto-submitted"], "auto-generated");
  assert.is(fields["date"], "Tue, 14 Nov 2023 22:13:20 +0000");
  assert.is(fields["x-assay-delivery"], "d-1");
  assert.match(message.text, /plain\r\n\.\r\ntext/);
  assert.match(message.text, /<b>page<\/b>/);
  assert.equal(bell.waiting(), []);
});

test("logs in over an encrypted connection only", async () => {
  const { sender, arrived } = await mailServer({ authOptional: false }, { login: ["assay", "p@ss/word"] });
  assert.is((await sender.send(email(["ann@x.example"]))).result, "accepted");
  assert.equal(
    arrived.map(({ user, secure }) => [user, secure]),
    [["assay", true]],
  );
});

test("a wrong password is reported without the password, and retried later", async () => {
  const { sender, arrived } = await mailServer({ authOptional: false }, { login: ["assay", "wrong-one"] });
  const outcome = await sender.send(email(["ann@x.example"]));
  assert.equal(
    { result: outcome.result, publicError: outcome.publicError, status: outcome.status },
    {
      result: "failed",
      publicError: "The mail server did not accept the user and password of this server",
      status: 535,
    },
  );
  assert.not.match(JSON.stringify(outcome), "wrong-one");
  assert.equal(arrived, []);
});

test("nothing that users write becomes a header, a command or a file", async () => {
  const { sender, arrived } = await mailServer();
  await sender.send(
    email(["ann@x.example"], {
      subject: "a\r\nBcc: evil@x.example\r\n\r\nbody",
      text: "x\r\n.\r\nQUIT\r\n",
      html: '<img src="file:///etc/passwd">',
    }),
  );
  const [message] = arrived as [Arrived];
  const fields = fieldsOf(message.text);
  assert.is(fields["subject"], "a Bcc: evil@x.example body");
  assert.is(fields["bcc"], undefined);
  assert.equal(message.to, ["ann@x.example"]);
  assert.match(message.text, 'src="file:///etc/passwd"');
  assert.is(arrived.length, 1);
});

test("skips invalid recipients, and a message without valid ones is hopeless", async () => {
  const { sender, arrived } = await mailServer();
  const odd = [
    "a\r\nRCPT TO:<evil@x.example>",
    "ann@x.example, evil@x.example",
    "<evil@x.example>",
    "ann",
    "@x.example",
    '"evil@x.example"@y.example',
    "a b@x.example",
    "a@x..example",
    "a@[127.0.0.1]",
    "ann@x.example\nBcc: evil@x.example",
  ];
  assert.is((await sender.send(email([...odd, "ann@x.example"]))).result, "accepted");
  assert.equal(
    arrived.map(({ to }) => to),
    [["ann@x.example"]],
  );
  assert.equal(await sender.send(email(odd)), {
    ...NONE,
    result: "hopeless",
    publicError: "None of the recipients is a valid e-mail address",
  });
  assert.is(arrived.length, 1);
});

test("without a mail server a message is hopeless, and the error says what to configure", async () => {
  const { sender } = given();
  assert.equal(await sender.send(email(["ann@x.example"])), {
    ...NONE,
    result: "hopeless",
    publicError: "No mail server is configured",
    detail: "set smtp-url and smtp-from, then assay deliveries retry",
  });
});

test("deferred recipients stay pending, refused ones do not", async () => {
  const { sender, arrived } = await mailServer({
    onRcptTo: ({ address }, _, done) =>
      done(
        address.startsWith("busy")
          ? refusal(450, "4.2.0 greylisted")
          : address.startsWith("gone")
            ? refusal(550, "5.1.1 unknown")
            : null,
      ),
  });
  const some = await sender.send(email(["ann@x.example", "busy@x.example", "gone@x.example"]));
  assert.equal(
    { result: some.result, publicError: some.publicError, left: some.pendingRecipients },
    {
      result: "failed",
      publicError: "The mail server did not accept the message for all recipients yet",
      left: ["busy@x.example"],
    },
  );
  assert.is(some.detail, "busy@x.example: 450 4.2.0 greylisted; gone@x.example: 550 5.1.1 unknown");
  assert.equal(
    arrived.map(({ to }) => to),
    [["ann@x.example"]],
  );

  const gone = await sender.send(email(["ann@x.example", "gone@x.example"]));
  assert.equal(
    { result: gone.result, publicError: gone.publicError, detail: gone.detail },
    { result: "accepted", publicError: null, detail: "refused for some: gone@x.example: 550 5.1.1 unknown" },
  );
  const none = await sender.send(email(["gone@x.example"]));
  assert.equal(
    { result: none.result, publicError: none.publicError, pendingRecipients: none.pendingRecipients },
    { result: "refused", publicError: "The mail server refused all recipients", pendingRecipients: null },
  );
  const later = await sender.send(email(["busy@x.example", "gone@x.example"]));
  assert.equal({ result: later.result, left: later.pendingRecipients }, { result: "failed", left: ["busy@x.example"] });
});

test("4xx for the whole message is a failure to retry, 5xx a refusal", async () => {
  for (const [code, result] of [
    [451, "failed"],
    [554, "refused"],
  ] as const) {
    const { sender } = await mailServer({ onMailFrom: (_, __, done) => done(refusal(code, "no")) });
    const outcome = await sender.send(email(["ann@x.example"]));
    assert.equal(
      { result: outcome.result, status: outcome.status, publicError: outcome.publicError },
      { result, status: code, publicError: `The mail server answered with status ${code}` },
    );
  }
});

const CERTIFICATE_REFUSED = "No secure connection to the mail server: its certificate or its TLS is not accepted";
const NOT_SECURE = `${CERTIFICATE_REFUSED}, or it offers none`;

test("TLS is required, used if offered, or off, as configured", async () => {
  const plain = { hideSTARTTLS: true, disabledCommands: ["STARTTLS"] };
  const demanded = await mailServer(plain);
  const outcome = await demanded.sender.send(email(["ann@x.example"]));
  assert.equal(
    { result: outcome.result, publicError: outcome.publicError },
    { result: "failed", publicError: NOT_SECURE },
  );
  assert.equal(demanded.arrived, []);
  for (const [tls, options, secure] of [
    ["optional", plain, false],
    ["optional", {}, true],
    ["off", {}, false],
  ] as const) {
    const { sender, arrived } = await mailServer(
      { ...options, disabledCommands: [...("disabledCommands" in options ? options.disabledCommands : [])] },
      { tls },
    );
    assert.is((await sender.send(email(["ann@x.example"]))).result, "accepted");
    assert.equal(
      arrived.map((message) => message.secure),
      [secure],
      tls,
    );
  }
});

test("smtps is encrypted from the first byte, and verifies the server's name", async () => {
  const secure = { host: "mail.assay.example", secure: true } as MailSettings["server"];
  const good = await mailServer({ secure: true }, { server: secure });
  assert.is((await good.sender.send(email(["ann@x.example"]))).result, "accepted");
  for (const [host, ca] of [
    ["other.example", [AUTHORITY]],
    ["mail.assay.example", null],
  ] as const) {
    const bad = await mailServer({ secure: true }, { server: { ...secure, host } }, { ca });
    const { result, publicError } = await bad.sender.send(email(["ann@x.example"]));
    assert.equal({ result, publicError }, { result: "failed", publicError: CERTIFICATE_REFUSED }, host);
    assert.equal(bad.arrived, []);
  }
  const upgraded = await mailServer({}, { server: { ...secure, secure: false, host: "other.example" } });
  assert.equal((await upgraded.sender.send(email(["ann@x.example"]))).publicError, NOT_SECURE);
});

/** A server that sends what the test wants; `called` resolves with the first connection. */
async function listener(greeting: string) {
  const server: Server = createServer();
  let tell: () => void = () => undefined;
  const called = new Promise<void>((resolve) => (tell = resolve));
  let closed: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => (closed = resolve));
  server.on("connection", (socket) => {
    socket.on("error", () => undefined);
    socket.on("close", closed);
    socket.resume();
    socket.write(greeting);
    tell();
  });
  opened.push({ close: () => void server.close() });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, called, ended, server };
}

test("gives up on a server that sends nothing, or not enough, at the time limit", async () => {
  for (const greeting of ["", "220 hello\r\n", "220-and\r\n220-on\r\n"]) {
    const { port, called, ended } = await listener(greeting);
    const { sender, bell } = senderFor(port);
    const sending = sender.send(email(["ann@x.example"]));
    await called;
    assert.equal(bell.waiting(), [60]);
    bell.ring();
    const { result, publicError } = await sending;
    assert.equal(
      { result, publicError },
      { result: "failed", publicError: "The mail server did not answer within 60 seconds" },
    );
    await ended;
  }
});

test("an unreachable server and an unknown name are failures", async () => {
  const { port, server } = await listener("");
  await new Promise((resolve) => server.close(resolve));
  const { result, publicError } = await senderFor(port).sender.send(email(["ann@x.example"]));
  assert.equal({ result, publicError }, { result: "failed", publicError: "The mail server could not be reached" });
  const unknown = await senderFor(port, {}, { resolve: names({}).resolve }).sender.send(email(["ann@x.example"]));
  assert.equal(
    { result: unknown.result, publicError: unknown.publicError },
    { result: "failed", publicError: "The host name of the mail server was not found" },
  );
});

test("does not read a response of megabytes, and reports a closed connection", async () => {
  const { port } = await listener(`220 ${"x".repeat(1 << 20)}`);
  assert.is((await senderFor(port).sender.send(email(["ann@x.example"]))).result, "failed");
  const { port: second, server } = await listener("");
  server.on("connection", (socket) => socket.end());
  assert.is((await senderFor(second).sender.send(email(["ann@x.example"]))).result, "failed");
});

test.run();
