/**
 * The certificate that the server is to show: judged as a start judges it (certificates.ts), and one that has ended is
 * a failure here.
 */
import { readFileSync } from "node:fs";
import { checkKeyPair } from "../../config/tls-certificate.ts";
import type { Check } from "./check.ts";
import { fail, ok, warn } from "./check.ts";

/** @param files their paths @param now epoch seconds */
export function checkCertificate(files: { certificate: string; key: string }, now: number): Check {
  const name = "certificate";
  const give = "give --tls-cert and --tls-key two PEM files that belong together and that the server may read";
  try {
    const pair = { certificate: readFileSync(files.certificate, "utf8"), key: readFileSync(files.key, "utf8") };
    const { problems, warnings, facts } = checkKeyPair(pair, files, now);
    if (problems.length > 0 || facts === null) return fail(name, problems.join("; "), give);
    const valid = now >= facts.validFrom && now < facts.validTo;
    if (warnings.length > 0)
      return (valid ? warn : fail)(
        name,
        warnings.join("; "),
        "check the clock; replace the certificate, and send the server SIGHUP",
      );
    return ok(name, `is valid until ${new Date(facts.validTo * 1000).toISOString().slice(0, 10)}`);
  } catch (error) {
    return fail(name, `cannot be used: ${error instanceof Error ? error.message : String(error)}`, give);
  }
}
