/**
 * Sends e-mail through the server that the operator configured, over one connection per message. That server may be
 * anywhere, also on this machine: only the recipients' addresses come from users.
 */
import { isIP } from "node:net";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import type SMTPConnection from "nodemailer/lib/smtp-connection";
import type { SentMessageInfo } from "nodemailer/lib/smtp-connection";
import { isMailAddress } from "../domain/network/mail-address.ts";
import type { Mailbox, MailServer, MailTls } from "../domain/network/mail-address.ts";
import { dial } from "./dial.ts";
import { abortedOutcome, connectionOutcome, errorText, isTlsError, outcome } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Resolve } from "./resolver.ts";

export type MailSettings = { server: MailServer; from: Mailbox; tls: MailTls };

type MailClientOptions = {
  resolve: Resolve;
  settings: MailSettings;
  /** CA certificates in PEM; null for those of Node. */
  ca: readonly string[] | null;
  /** Epoch seconds. */
  now(): number;
};

type OutgoingMail = { id: string; emails: readonly string[]; subject: string; text: string; html: string };

/** Time limit of an attempt. Mail servers inspect a message before they accept it, and some delay their greeting. */
export const MAIL_TIMEOUT_S = 60;
/** Bytes of one response of the server. */
const MAX_RESPONSE_BYTES = 65_536;
/** Characters of a response that are stored. */
const MAX_EXCERPT_CHARS = 200;

/** nodemailer's error about a refusal, of one recipient or of all. */
type Refusal = Error & {
  code?: string;
  originalCode?: string;
  responseCode?: number;
  response?: string;
  recipient?: string;
  rejectedErrors?: readonly Refusal[];
};

type Envelope = { from: string | false; to: string[] };

/**
 * Sends a message and returns the outcome. Never rejects. `signal` is aborted with TIMED_OUT or STOPPED (outcome.ts).
 */
export async function sendMail(options: MailClientOptions, mail: OutgoingMail, signal: AbortSignal): Promise<Outcome> {
  const { server } = options.settings;
  const recipients = mail.emails.filter(isMailAddress);
  if (recipients.length === 0) return outcome("hopeless", "None of the recipients is a valid e-mail address");
  let address: string | null = null;
  let socket: Socket | null = null;
  let connection: SMTPConnection | null = null;
  try {
    signal.throwIfAborted();
    const addresses = isIP(server.host) !== 0 ? [server.host] : await options.resolve(server.host, signal);
    socket = await dial(
      { host: server.host, port: server.port, addresses, tls: server.secure ? { ca: options.ca } : null },
      signal,
    );
    address = socket.remoteAddress ?? null;

    // Loaded on first use, so that a server that sends no mail does not carry it.
    const [{ default: Connection }, { default: Composer }] = await Promise.all([
      import("nodemailer/lib/smtp-connection"),
      import("nodemailer/lib/mail-composer"),
    ]);
    const composed = await compose(new Composer(messageFields(options, mail, recipients)));
    connection = new Connection({ ...connectionOptions(options, socket) });
    const info = await converse(connection, { ...composed, socket, server, signal });
    const rejected = (info.rejectedErrors ?? []) as readonly Refusal[];
    const status = statusOf(info.response);
    return rejected.length === 0
      ? outcome("accepted", null, { address, status })
      : rejectionOutcome(rejected, { hasAccepted: true, address, status });
  } catch (error) {
    if (signal.aborted) return abortedOutcome(signal.reason, { name: "mail server", address }, MAIL_TIMEOUT_S);
    return failureOutcome(error as Refusal, address);
  } finally {
    connection?.close();
    socket?.destroy();
  }
}

/**
 * nodemailer's options for an open connection. Its own time limits exceed ours: the signal bounds the whole attempt.
 */
function connectionOptions({ settings: { server, tls }, ca }: MailClientOptions, socket: Socket) {
  return {
    connection: socket,
    host: server.host,
    port: server.port,
    secure: server.secure,
    secured: server.secure,
    requireTLS: !server.secure && tls === "required",
    ignoreTLS: !server.secure && tls === "off",
    name: ehloName(),
    maxResponseSize: MAX_RESPONSE_BYTES,
    connectionTimeout: 2 * MAIL_TIMEOUT_S * 1000,
    greetingTimeout: 2 * MAIL_TIMEOUT_S * 1000,
    socketTimeout: 2 * MAIL_TIMEOUT_S * 1000,
    socketCloseTimeout: 0,
    tls: { rejectUnauthorized: true, ...(ca ? { ca: [...ca] } : {}) },
  };
}

/** The name in EHLO. A host name without a dot is not valid there; an address is used instead (RFC 5321, 4.1.3). */
function ehloName(): string {
  const name = hostname();
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i.test(name) ? name : "[127.0.0.1]";
}

/**
 * The message for nodemailer. Text from users only becomes the value of a field, never a header of its own; control
 * characters in the subject become spaces.
 */
function messageFields(
  { settings: { from }, now }: MailClientOptions,
  mail: OutgoingMail,
  recipients: readonly string[],
) {
  return {
    from,
    to: recipients.map((address) => ({ name: "", address })),
    subject: mail.subject.replace(/\p{Cc}+/gu, " "),
    text: mail.text,
    html: mail.html,
    date: new Date(now() * 1000),
    // The same for every attempt, so that a mailbox recognizes a repetition.
    messageId: `<${mail.id}@${from.address.slice(from.address.lastIndexOf("@") + 1)}>`,
    headers: { "Auto-Submitted": "auto-generated", "X-Assay-Delivery": mail.id },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

type Composer = { compile(): { build(): Promise<Buffer>; getEnvelope(): Envelope } };

async function compose(composer: Composer): Promise<{ message: Buffer; envelope: Envelope }> {
  const node = composer.compile();
  return { message: await node.build(), envelope: node.getEnvelope() };
}

type Conversation = {
  message: Buffer;
  envelope: Envelope;
  socket: Socket;
  server: MailServer;
  signal: AbortSignal;
};

/** Runs the SMTP conversation. Rejects with the error of the server or the network, or when the signal is aborted. */
function converse(
  connection: SMTPConnection,
  { message, envelope, socket, server: { user, password }, signal }: Conversation,
): Promise<SentMessageInfo> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(new Error("the attempt was aborted"));
    signal.addEventListener("abort", abort, { once: true });
    // Stays attached: an error after the promise has settled would end the process without a listener.
    connection.on("error", reject);
    const onEnd = (): void => reject(new Error("the server closed the connection"));
    connection.once("end", onEnd);
    // nodemailer misses an end from before it listens. Its own errors say more, so they get a turn to come first.
    if (socket.destroyed) onEnd();
    else socket.once("close", () => setImmediate(onEnd));
    const send = (): void =>
      connection.send(envelope, message, (error, info) =>
        error || !info ? reject(error ?? new Error("no answer")) : resolve(info),
      );
    connection.connect((error) => {
      if (error) reject(error);
      else if (user === null) send();
      else
        connection.login({ user, pass: password ?? "", credentials: { user, pass: password ?? "" } }, (refusal) =>
          refusal ? reject(refusal) : send(),
        );
    });
  });
}

/** The outcome when some recipients, or all, were refused: those that may accept the message later stay pending. */
function rejectionOutcome(
  errors: readonly Refusal[],
  { hasAccepted, ...more }: { hasAccepted: boolean; address: string | null; status: number | null },
): Outcome {
  const detail = errors
    .map((error) => `${error.recipient ?? "a recipient"}: ${excerptOf(error.response ?? error.message)}`)
    .join("; ");
  const pendingRecipients = errors.flatMap(({ recipient, responseCode = 0 }) =>
    recipient !== undefined && responseCode < 500 ? [recipient] : [],
  );
  if (pendingRecipients.length > 0)
    return outcome("failed", "The mail server did not accept the message for all recipients yet", {
      ...more,
      detail,
      pendingRecipients,
    });
  if (hasAccepted) return outcome("accepted", null, { ...more, detail: `refused for some: ${detail}` });
  return outcome("refused", "The mail server refused all recipients", { ...more, detail });
}

function failureOutcome(error: Refusal, address: string | null): Outcome {
  const status = error.responseCode ?? null;
  if (error.rejectedErrors && error.rejectedErrors.length > 0)
    return rejectionOutcome(error.rejectedErrors, { hasAccepted: false, address, status });
  const more = { address, status, detail: excerptOf(error.response ?? errorText(error)) };
  if (error.code === "EAUTH")
    return outcome("failed", "The mail server did not accept the user and password of this server", more);
  if (error.code === "ETLS" || isTlsError(error.originalCode))
    return outcome(
      "failed",
      "No secure connection to the mail server: its certificate or its TLS is not accepted, or it offers none",
      more,
    );
  if (status !== null)
    return outcome(status >= 500 ? "refused" : "failed", `The mail server answered with status ${status}`, more);
  return connectionOutcome(error, { name: "mail server", address });
}

const statusOf = (response: string): number | null => (/^\d{3}\b/.test(response) ? Number(response.slice(0, 3)) : null);
const excerptOf = (text: string): string =>
  text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, MAX_EXCERPT_CHARS);
