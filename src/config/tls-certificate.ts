/** Certificates of the operator, in PEM: what they say, and whether a certificate and a key can serve together. */
import { X509Certificate, createPrivateKey } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { createSecureContext } from "node:tls";

/** What a certificate says of itself. Times in epoch seconds. */
export type CertificateFacts = {
  /** On one line, such as `CN=assay.example.com, O=Example`. */
  subject: string;
  issuer: string;
  /** Host names and addresses that it is for, as in `assay.example.com` and `10.0.0.5`. */
  names: readonly string[];
  validFrom: number;
  validTo: number;
};

/** All certificates of a text, in the order in which they stand there; null in place of one that cannot be read. */
export const parseCertificates = (pem: string): (X509Certificate | null)[] =>
  (
    pem.match(/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]*-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g) ?? []
  ).map(readCertificate);

function readCertificate(pem: string): X509Certificate | null {
  try {
    return new X509Certificate(pem);
  } catch {
    return null;
  }
}

export function certificateFactsOf(certificate: X509Certificate): CertificateFacts {
  return {
    subject: line(certificate.subject),
    issuer: line(certificate.issuer),
    names: (certificate.subjectAltName ?? "")
      .split(", ")
      .flatMap((entry) => /^(?:DNS|IP Address):(.+)$/.exec(entry)?.[1] ?? []),
    validFrom: Date.parse(certificate.validFrom) / 1000,
    validTo: Date.parse(certificate.validTo) / 1000,
  };
}

/**
 * When the first certificate of a text ends, which is that of the server: epoch seconds; null where there is none that
 * can be read.
 */
export function findExpiry(pem: string): number | null {
  const [leaf] = parseCertificates(pem);
  return leaf ? certificateFactsOf(leaf).validTo : null;
}

const line = (name: string | undefined): string => (name ?? "").split("\n").join(", ");

/** Whole days for which a certificate is still valid: 0 on its last day, negative once it has ended. */
export const daysLeft = ({ validTo }: CertificateFacts, now: number): number => Math.floor((validTo - now) / 86_400);

export type KeyPairCheck = {
  /** Why the pair cannot serve; empty when it can. */
  problems: readonly string[];
  /** What clients will mind, although the server can start. */
  warnings: readonly string[];
  /** The certificate of the server itself; null where there is none that can be read. */
  facts: CertificateFacts | null;
};

/** Days before the end of a certificate from which on it is a warning: a month is what people need to get a new one. */
const WARN_DAYS = 30;

/**
 * Checks a certificate (with its chain behind it) and its key, both in PEM.
 * @param names of the two files, for the messages
 * @param now epoch seconds
 */
export function checkKeyPair(
  pair: { certificate: string; key: string },
  names: { certificate: string; key: string },
  now: number,
): KeyPairCheck {
  const chain = parseCertificates(pair.certificate);
  const [leaf] = chain;
  const { key, problem } = readKey(pair.key, names.key);
  const unreadable = [
    ...(chain.length === 0 ? [`${names.certificate} holds no certificate in PEM form`] : []),
    ...chain.flatMap((certificate, index) =>
      certificate ? [] : [`${names.certificate}: certificate ${index + 1} cannot be read`],
    ),
    ...(problem === null ? [] : [problem]),
  ];
  const isComplete = leaf && key && unreadable.length === 0;
  const problems = isComplete ? mismatch(chain as X509Certificate[], key, pair, names) : unreadable;
  const facts = leaf ? certificateFactsOf(leaf) : null;
  return { problems, warnings: facts === null ? [] : warningsOf(facts, names.certificate, now), facts };
}

function readKey(pem: string, name: string): { key: KeyObject | null; problem: string | null } {
  const fail = (problem: string) => ({ key: null, problem: `${name} ${problem}` });
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) return fail("holds no private key in PEM form");
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type:.*ENCRYPTED/m.test(pem)) {
    return fail(
      "holds an encrypted key, and nobody could give the password at a start: write it without one with openssl pkey -in FILE -out NEW, readable for the server alone",
    );
  }
  try {
    return { key: createPrivateKey(pem), problem: null };
  } catch {
    return fail("holds a private key that cannot be read");
  }
}

function mismatch(
  chain: readonly X509Certificate[],
  key: KeyObject,
  pair: { certificate: string; key: string },
  names: { certificate: string; key: string },
): string[] {
  const place = chain.findIndex((certificate) => certificate.checkPrivateKey(key));
  if (place < 0) return [`the key in ${names.key} does not belong to the certificate in ${names.certificate}`];
  if (place > 0)
    return [
      `the certificate of the key in ${names.key} comes as number ${place + 1} in ${names.certificate}: it must be the first, followed by those that lead to its authority`,
    ];
  try {
    createSecureContext({ cert: pair.certificate, key: pair.key, minVersion: "TLSv1.2" });
    return [];
  } catch (error) {
    return [
      `${names.certificate} and ${names.key} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
    ];
  }
}

function warningsOf(facts: CertificateFacts, name: string, now: number): string[] {
  const day = (time: number): string => new Date(time * 1000).toISOString().slice(0, 10);
  if (now >= facts.validTo)
    return [`the certificate in ${name} ended on ${day(facts.validTo)}: clients will refuse it`];
  if (now < facts.validFrom)
    return [`the certificate in ${name} is not valid before ${day(facts.validFrom)}: clients will refuse it`];
  const days = daysLeft(facts, now);
  return days < WARN_DAYS ? [`the certificate in ${name} ends on ${day(facts.validTo)}, in ${days} days`] : [];
}
