/**
 * Checks the certificate that the server would use, with the rules of a start (config/tls-certificate.ts); an expired
 * certificate is a failure here.
 */
import { readFileSync } from "node:fs";
import { checkKeyPair } from "../../config/tls-certificate.ts";
import { messageOf, onPathSync } from "../../domain/text/system-errors.ts";
import type { Check } from "./check.ts";
import { fail, ok, warn } from "./check.ts";

/** @param files the paths of certificate and key @param now epoch seconds */
export function checkCertificate(files: { certificate: string; key: string }, now: number): Check {
  const name = "certificate";
  const todo = "set --tls-cert and --tls-key to a matching pair of PEM files that the server can read";
  try {
    const pair = { certificate: readText(files.certificate), key: readText(files.key) };
    const { problems, warnings, facts } = checkKeyPair(pair, files, now);
    if (problems.length > 0 || facts === null) return fail(name, problems.join("; "), todo);
    const isValid = now >= facts.validFrom && now < facts.validTo;
    if (warnings.length > 0) {
      const report = isValid ? warn : fail;
      return report(
        name,
        warnings.join("; "),
        "check the clock; if it is right, replace the certificate and send SIGHUP to the server",
      );
    }
    return ok(name, `is valid until ${new Date(facts.validTo * 1000).toISOString().slice(0, 10)}`);
  } catch (error) {
    return fail(name, messageOf(error), todo);
  }
}

const readText = (path: string): string => onPathSync(path, () => readFileSync(path, "utf8"));
