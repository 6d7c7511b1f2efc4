/** A real mail server on loopback, and senders for it. */
import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";
import type { SMTPServerOptions } from "smtp-server";
import type { MailSettings } from "../../src/notifications/mail-client.ts";
import type { SenderOptions } from "../../src/notifications/sender.ts";
import { AUTHORITY, CERTIFICATE, KEY } from "./certificates.ts";
import { given } from "./given.ts";

const servers = new Set<SMTPServer>();

/** Stops all mail servers. Call it in `after`. */
export function endMailServers(): void {
  for (const server of servers) server.close(() => undefined);
  servers.clear();
}

/** A message, and the session in which it came. */
export type Arrived = { from: string; to: string[]; text: string; secure: boolean; user: string | null };
/** What a mail server refuses with. */
export const refusal = (responseCode: number, text: string): Error => Object.assign(new Error(text), { responseCode });

/** A mail server with STARTTLS, and a sender for it. `arrived` lists the messages so far. */
export async function mailServer(
  options: SMTPServerOptions = {},
  settings: Partial<MailSettings> & { login?: [string, string] } = {},
  more: Partial<SenderOptions> = {},
) {
  const arrived: Arrived[] = [];
  const server = new SMTPServer({
    key: KEY,
    cert: CERTIFICATE,
    authOptional: true,
    closeTimeout: 10,
    logger: false,
    onAuth: ({ username, password }, _, done) =>
      username === "assay" && password === "p@ss/word"
        ? done(null, { user: username })
        : done(refusal(535, "5.7.8 no such user")),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        const { mailFrom, rcptTo } = session.envelope;
        arrived.push({
          from: mailFrom ? mailFrom.address : "",
          to: rcptTo.map(({ address }) => address),
          text: Buffer.concat(chunks).toString(),
          secure: session.secure,
          user: (session.user as string | false | undefined) || null,
        });
        done();
      });
    },
    ...options,
  });
  server.on("error", () => undefined);
  servers.add(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { arrived, ...senderFor((server.server.address() as AddressInfo).port, settings, more) };
}

/** A sender for the mail server on a port of this machine. */
export function senderFor(
  port: number,
  { login, ...settings }: Partial<MailSettings> & { login?: [string, string] } = {},
  more: Partial<SenderOptions> = {},
) {
  const server = {
    host: "mail.assay.example",
    port,
    secure: false,
    user: login?.[0] ?? null,
    password: login?.[1] ?? null,
    ...settings.server,
  };
  return given({
    ca: [AUTHORITY],
    ...more,
    mail: { from: { name: "Assay", address: "assay@assay.example" }, tls: "required", ...settings, server },
  });
}

/** The header fields of a message, folded lines joined. */
export const fieldsOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    (text.split("\r\n\r\n")[0] ?? "")
      .replace(/\r\n[ \t]+/g, " ")
      .split("\r\n")
      .map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 2)]),
  );
