/**
 * E-mail to the server that the operator chose, one connection for each message. That server may be anywhere, also on
 * this machine: only the addresses of its recipients come from users.
 */
import { isIP } from "node:net";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import type SMTPConnection from "nodemailer/lib/smtp-connection";
import type { SentMessageInfo } from "nodemailer/lib/smtp-connection";
import { isMailAddress } from "../domain/network/mail-address.ts";
import type { Mailbox, MailServer, MailTls } from "../domain/network/mail-address.ts";
import { dial } from "./dial.ts";
import { aborted, errorText, isTlsError, outcome, unreached } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Resolve } from "./resolver.ts";

export type MailSettings = { server: MailServer; from: Mailbox; tls: MailTls };

export type MailParts = {
  resolve: Resolve;
  settings: MailSettings;
  /** Certificates of authorities in PEM; those of Node unless given. */
  ca: readonly string[] | null;
  /** Epoch seconds. */
  now(): number;
};

export type OutgoingMail = { id: string; emails: readonly string[]; subject: string; text: string; html: string };

/** Seconds for a message. Mail servers look at what they get before they accept it, and some greet late on purpose. */
export const MAIL_SECONDS = 60;
/** Bytes of one answer of the server. */
const MOST_BYTES = 65_536;
const KEPT_CHARACTERS = 200;

/** What nodemailer says of a refusal, of one recipient or of all. */
type Refusal = Error & {
  code?: string;
  originalCode?: string;
  responseCode?: number;
  response?: string;
  recipient?: string;
  rejectedErrors?: readonly Refusal[];
};

/** Sends, and says how that went. Never rejects. `signal` is aborted with LATE or STOPPED (outcome.ts). */
export async function sendMail(parts: MailParts, mail: OutgoingMail, signal: AbortSignal): Promise<Outcome> {
  const { server } = parts.settings;
  const recipients = mail.emails.filter(isMailAddress);
  if (recipients.length === 0) return outcome("hopeless", "None of the recipients is a valid e-mail address");
  let address: string | null = null;
  let socket: Socket | null = null;
  let connection: SMTPConnection | null = null;
  try {
    signal.throwIfAborted();
    const addresses = isIP(server.host) !== 0 ? [server.host] : await parts.resolve(server.host, signal);
    socket = await dial(
      { host: server.host, port: server.port, addresses, tls: server.secure ? { ca: parts.ca } : null },
      signal,
    );
    address = socket.remoteAddress ?? null;

    // Only now, so that a server that sends no mail does not load it.
    const [{ default: Connection }, { default: Composer }] = await Promise.all([
      import("nodemailer/lib/smtp-connection"),
      import("nodemailer/lib/mail-composer"),
    ]);
    const { message, envelope } = await compose(new Composer(fieldsOf(parts, mail, recipients)));
    connection = new Connection({ ...optionsOf(parts, socket) });
    const info = await deliver(connection, socket, server, envelope, message, signal);
    const refused = info.rejectedErrors ?? [];
    const status = statusOf(info.response);
    return refused.length === 0
      ? outcome("accepted", null, { address, status })
      : divided(refused as readonly Refusal[], true, { address, status });
  } catch (error) {
    if (signal.aborted) return aborted(signal.reason, "mail server", MAIL_SECONDS, { address });
    return failureOf(error as Refusal, address);
  } finally {
    connection?.close();
    socket?.destroy();
  }
}

/**
 * How the library is to speak over a connection that is open. Its own times are longer than ours: the signal bounds all
 * of it.
 */
function optionsOf({ settings: { server, tls }, ca }: MailParts, socket: Socket) {
  return {
    connection: socket,
    host: server.host,
    port: server.port,
    secure: server.secure,
    secured: server.secure,
    requireTLS: !server.secure && tls === "required",
    ignoreTLS: !server.secure && tls === "off",
    name: nameOfMachine(),
    maxResponseSize: MOST_BYTES,
    connectionTimeout: 2 * MAIL_SECONDS * 1000,
    greetingTimeout: 2 * MAIL_SECONDS * 1000,
    socketTimeout: 2 * MAIL_SECONDS * 1000,
    socketCloseTimeout: 0,
    tls: { rejectUnauthorized: true, ...(ca ? { ca: [...ca] } : {}) },
  };
}

/** What EHLO says. A name without a dot is no name in mail; servers want an address then (RFC 5321, 4.1.3). */
function nameOfMachine(): string {
  const name = hostname();
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i.test(name) ? name : "[127.0.0.1]";
}

/**
 * Everything of users is a value of a field and not a header by itself; control characters in the subject become
 * blanks.
 */
function fieldsOf({ settings: { from }, now }: MailParts, mail: OutgoingMail, recipients: readonly string[]) {
  return {
    from,
    to: recipients.map((address) => ({ name: "", address })),
    subject: mail.subject.replace(/\p{Cc}+/gu, " "),
    text: mail.text,
    html: mail.html,
    date: new Date(now() * 1000),
    // The same for every attempt, so that a mailbox can tell a repetition.
    messageId: `<${mail.id}@${from.address.slice(from.address.lastIndexOf("@") + 1)}>`,
    headers: { "Auto-Submitted": "auto-generated", "X-Assay-Delivery": mail.id },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

type Composed = { compile(): { build(): Promise<Buffer>; getEnvelope(): { from: string | false; to: string[] } } };

async function compose(
  composer: Composed,
): Promise<{ message: Buffer; envelope: { from: string | false; to: string[] } }> {
  const node = composer.compile();
  return { message: await node.build(), envelope: node.getEnvelope() };
}

/**
 * The conversation with the server. Rejects with what the server or the network said, or when the signal is aborted.
 */
function deliver(
  connection: SMTPConnection,
  socket: Socket,
  { user, password }: MailServer,
  envelope: { from: string | false; to: string[] },
  message: Buffer,
  signal: AbortSignal,
): Promise<SentMessageInfo> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(new Error("the attempt was given up"));
    signal.addEventListener("abort", abort, { once: true });
    // What comes after the promise is settled finds nobody who listens, and must not end the process.
    connection.on("error", reject);
    const ended = (): void => reject(new Error("the server closed the connection"));
    connection.once("end", ended);
    // The library misses an end that came before it listens. What it knows of the others says more, and comes first.
    if (socket.destroyed) ended();
    else socket.once("close", () => setImmediate(ended));
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

/** Some recipients, or all, were refused, each in its own way: those that may accept it later are left. */
function divided(errors: readonly Refusal[], someAccepted: boolean, more: Partial<Outcome>): Outcome {
  const said = errors
    .map((error) => `${error.recipient ?? "a recipient"}: ${shortened(error.response ?? error.message)}`)
    .join("; ");
  const later = errors.flatMap(({ recipient, responseCode = 0 }) =>
    recipient !== undefined && responseCode < 500 ? [recipient] : [],
  );
  if (later.length > 0)
    return outcome("failed", "The mail server did not accept the message for all recipients yet", {
      ...more,
      detail: said,
      left: later,
    });
  if (someAccepted) return outcome("accepted", null, { ...more, detail: `refused for some: ${said}` });
  return outcome("refused", "The mail server refused all recipients", { ...more, detail: said });
}

function failureOf(error: Refusal, address: string | null): Outcome {
  const status = error.responseCode ?? null;
  const more = { address, status, detail: shortened(error.response ?? errorText(error)) };
  if (error.rejectedErrors && error.rejectedErrors.length > 0)
    return divided(error.rejectedErrors, false, { address, status });
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
  return unreached(error, "mail server", { address });
}

const statusOf = (response: string): number | null => (/^\d{3}\b/.test(response) ? Number(response.slice(0, 3)) : null);
const shortened = (text: string): string =>
  text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, KEPT_CHARACTERS);
