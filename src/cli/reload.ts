/** Reload on SIGHUP: reads the certificate again, which is all that can be replaced while the server runs. */
import { daysLeft } from "../config/tls-certificate.ts";
import { messageOf } from "../domain/text/system-errors.ts";
import type { Logger } from "../log.ts";
import type { Config } from "../config/options.ts";
import type { Instance } from "../server/instance.ts";
import type { SdNotifier } from "../server/sd-notify.ts";
import type { Io } from "./framework.ts";
import { readKeyPair } from "./tls.ts";
import type { CheckedKeyPair } from "./tls.ts";
import { systemSources } from "../clock.ts";

/** Handles SIGHUP from now on. A reload requested before the server listens happens once it does. */
export function reloadOnHangup(
  io: Io,
  started: Promise<Instance>,
  parts: { config: Config; logger: Logger; notifier: SdNotifier },
): void {
  let isRequested = false;
  let isRunning = false;
  const runReloads = async (instance: Instance): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    while (isRequested) {
      isRequested = false;
      await reload(io, instance, parts);
    }
    isRunning = false;
  };
  io.onSignal("SIGHUP", () => {
    isRequested = true;
    void started.then(runReloads);
  });
}

/** Never rejects: a half-written file must not end the server. */
async function reload(
  io: Io,
  instance: Instance,
  { config, logger, notifier }: { config: Config; logger: Logger; notifier: SdNotifier },
): Promise<void> {
  notifier.reloading();
  try {
    const read = await readKeyPair(io, config);
    if (read === null) logger.info("reload requested, but tls-cert is not set, so there is nothing to reload");
    else {
      instance.replaceCertificate(read.pair);
      logCertificate(logger, read, "certificate reloaded; new connections use it");
    }
  } catch (error) {
    logger.error(
      { problem: messageOf(error) },
      "the reloaded certificate cannot be used; the current one stays in use",
    );
  }
  notifier.ready(statusOf(instance));
}

/** The status line shown by `systemctl status`. */
export const statusOf = ({ urls }: Instance): string => `listening on ${urls.join(", ")}`;

/** Logs the certificate now in use, and a warning for everything about it that clients may reject. */
export function logCertificate(logger: Logger, { facts, warnings }: CheckedKeyPair, message: string): void {
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
