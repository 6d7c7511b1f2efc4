/** The certificate that the server is to show. */
import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Check } from "./check.ts";
import { fail, ok, warn } from "./check.ts";

/** A month is what people need to get a new certificate. In seconds. */
const SOON = 30 * 86_400;

/** @param files their paths @param now epoch seconds */
export function checkCertificate(files: { certificate: string; key: string }, now: number): Check {
  const name = "certificate";
  try {
    const certificate = new X509Certificate(readFileSync(files.certificate));
    if (!certificate.checkPrivateKey(createPrivateKey(readFileSync(files.key)))) return fail(name, `${files.key} is not the key of ${files.certificate}`, "give the two that belong together");
    const [from, to] = [Date.parse(certificate.validFrom) / 1000, Date.parse(certificate.validTo) / 1000];
    const day = (at: number): string => new Date(at * 1000).toISOString().slice(0, 10);
    if (now < from) return fail(name, `is valid from ${day(from)} on`, "check the clock, or give the certificate that is valid now");
    if (now >= to) return fail(name, `ended on ${day(to)}`, "replace it, and send the server SIGHUP");
    if (to - now < SOON) return warn(name, `ends on ${day(to)}, in ${Math.floor((to - now) / 86_400)} days`, "replace it, and send the server SIGHUP");
    return ok(name, `is valid until ${day(to)}`);
  } catch (error) {
    return fail(name, `cannot be used: ${error instanceof Error ? error.message : String(error)}`, "give --tls-cert and --tls-key two PEM files that the server may read");
  }
}
