/**
 * What the log says of a start: the upgrade of the database, and one line about what runs, where and with which
 * options.
 */
import { readBuildInfo } from "../assets.ts";
import { explainConfig } from "../config/resolve.ts";
import type { ConfigSources } from "../config/resolve.ts";
import type { Config } from "../config/options.ts";
import type { Logger } from "../log.ts";
import { schemaVersion } from "../store/db/database.ts";
import type { UpgradeStep } from "../store/db/database.ts";

/**
 * Logs each step of an upgrade with what it took.
 * @param milliseconds a clock that never goes back
 */
export function upgradeLogger(logger: Logger, milliseconds: () => number): (step: UpgradeStep) => void {
  let [begun, last] = [milliseconds(), milliseconds()];
  return (step) => {
    const now = milliseconds();
    const sinceLast = { duration_ms: Math.round(now - last) };
    last = now;
    switch (step.step) {
      case "begun":
        begun = now;
        logger.info({ from_schema: step.from, to_schema: step.to }, "upgrading the database");
        break;
      case "copied":
        logger.info({ file: step.file, bytes: step.bytes, ...sinceLast }, "copied the database before its upgrade");
        break;
      case "migrated":
        logger.info({ migration: step.name, schema: step.version, ...sinceLast }, "applied a migration");
        break;
      case "done": {
        const whole = { from_schema: step.from, to_schema: step.to, duration_ms: Math.round(now - begun) };
        logger.info(whole, "upgraded the database");
        break;
      }
    }
  };
}

/**
 * Logs the line about a server that listens: what runs, on which data, at which addresses, and the options that
 * somebody set, each with its value and where it came from. Secrets are masked.
 */
export function logStart(
  logger: Logger,
  { directory, config, sources }: { directory: string; config: Config; sources: ConfigSources },
  { urls, baseUrl }: { urls: readonly string[]; baseUrl: string },
): void {
  const { version, commit } = readBuildInfo();
  const set = explainConfig(config, sources).filter(({ source, value }) => source !== "default" && value !== null);
  logger.info(
    {
      version,
      commit,
      schema: schemaVersion(),
      data: directory,
      listening: urls,
      base_url: baseUrl,
      // A list, because the log hides the whole of a field that is named like a secret.
      options: set,
    },
    "started",
  );
}
