/**
 * Log lines about a start: the upgrade of the database, and one line about what runs, where, and with which options.
 */
import { readBuildInfo } from "../assets.ts";
import type { Config } from "../config/options.ts";
import { explainConfig } from "../config/resolve.ts";
import type { ConfigSources } from "../config/resolve.ts";
import type { Logger } from "../log.ts";
import { schemaVersion } from "../store/db/database.ts";
import type { UpgradeStep } from "../store/db/database.ts";

/**
 * Returns a function that logs each step of an upgrade with its duration.
 * @param milliseconds a monotonic clock
 */
export function upgradeLogger(logger: Logger, milliseconds: () => number): (step: UpgradeStep) => void {
  let [startedAt, lastStepAt] = [milliseconds(), milliseconds()];
  return (step) => {
    const now = milliseconds();
    const sinceLast = { duration_ms: Math.round(now - lastStepAt) };
    lastStepAt = now;
    switch (step.step) {
      case "begun":
        startedAt = now;
        logger.info({ from_schema: step.from, to_schema: step.to }, "upgrading the database");
        break;
      case "copied":
        logger.info({ file: step.file, bytes: step.bytes, ...sinceLast }, "copied the database before its upgrade");
        break;
      case "migrated":
        logger.info({ migration: step.name, schema: step.version, ...sinceLast }, "applied a migration");
        break;
      case "done": {
        const facts = { from_schema: step.from, to_schema: step.to, duration_ms: Math.round(now - startedAt) };
        logger.info(facts, "upgraded the database");
        break;
      }
    }
  };
}

/**
 * Logs one line about a server that listens: what runs, on which data, at which addresses, and every option that is
 * set, with its value and its source. Secrets are masked.
 */
export function logStart(
  logger: Logger,
  { directory, config, sources }: { directory: string; config: Config; sources: ConfigSources },
  { urls, baseUrl }: { urls: readonly string[]; baseUrl: string },
): void {
  const { version, commit } = readBuildInfo();
  const options = explainConfig(config, sources).filter(({ source, value }) => source !== "default" && value !== null);
  logger.info(
    {
      version,
      commit,
      schema: schemaVersion(),
      data: directory,
      listening: urls,
      base_url: baseUrl,
      // A list, because the log masks the whole value of a field whose name looks like a secret.
      options,
    },
    "started",
  );
}
