/** SIGHUP to a server: what can be replaced while it serves is read again. That is its certificate. */
import { systemSources } from "../server/app.ts";
import { daysLeft } from "../config/tls-certificate.ts";
import type { Logger } from "../log.ts";
import type { Config } from "../config/options.ts";
import type { Instance } from "../server/instance.ts";
import type { Notifier } from "../server/sd-notify.ts";
import type { Io } from "./framework.ts";
import { readPair } from "./tls.ts";
import type { ReadPair } from "./tls.ts";

/** From now on SIGHUP ends nothing. What is asked for before the server listens is done then. */
export function reloadOnHangup(
  io: Io,
  started: Promise<Instance>,
  parts: { config: Config; logger: Logger; notifier: Notifier },
): void {
  let asked = false;
  let running = false;
  const turns = async (instance: Instance): Promise<void> => {
    if (running) return;
    running = true;
    while (asked) {
      asked = false;
      await reload(io, instance, parts);
    }
    running = false;
  };
  io.onSignal("SIGHUP", () => {
    asked = true;
    void started.then(turns);
  });
}

/** Never rejects: a server does not end because of a file that somebody is still writing. */
async function reload(
  io: Io,
  instance: Instance,
  { config, logger, notifier }: { config: Config; logger: Logger; notifier: Notifier },
): Promise<void> {
  notifier.reloading();
  try {
    const read = await readPair(io, config);
    if (read === null) logger.info("SIGHUP: without tls-cert there is nothing to read again");
    else {
      instance.replacePair(read.pair);
      tellCertificate(logger, read, "the certificate was read again: new connections get it");
    }
  } catch (error) {
    logger.error(
      { problem: error instanceof Error ? error.message : String(error) },
      "the certificate was read again and cannot be used: the one in use stays",
    );
  }
  notifier.ready(statusOf(instance));
}

/** The line of `systemctl status`. */
export const statusOf = ({ urls }: Instance): string => `listening on ${urls.join(", ")}`;

/** Logs which certificate is in use from now on, and what clients will mind about it. */
export function tellCertificate(logger: Logger, { facts, warnings }: ReadPair, message: string): void {
  for (const warning of warnings) logger.warn(warning);
  if (facts === null) return;
  const { subject, names, validTo } = facts;
  logger.info(
    {
      subject,
      names,
      valid_until: new Date(validTo * 1000).toISOString(),
      days_left: daysLeft(facts, systemSources.now()),
    },
    message,
  );
}
