/** Reads the operator's certificates (PEM), and checks whether a certificate and a key can serve together. */
import { X509Certificate, createPrivateKey } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { createSecureContext } from "node:tls";

/** The fields of a certificate. Times in epoch seconds. */
export type CertificateFacts = {
  /** On one line, such as `CN=assay.example.com, O=Example`. */
  subject: string;
  issuer: string;
  /** Host names and addresses, such as `assay.example.com` and `10.0.0.5`. */
  names: readonly string[];
  validFrom: number;
  validTo: number;
};

/** Parses all certificates in a text, in its order; null in place of an invalid one. */
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
    subject: joinLines(certificate.subject),
    issuer: joinLines(certificate.issuer),
    names: (certificate.subjectAltName ?? "")
      .split(", ")
      .flatMap((entry) => /^(?:DNS|IP Address):(.+)$/.exec(entry)?.[1] ?? []),
    validFrom: Date.parse(certificate.validFrom) / 1000,
    validTo: Date.parse(certificate.validTo) / 1000,
  };
}

/** Expiry of the first certificate in a text, the server's, in epoch seconds; null if it is missing or invalid. */
export function findExpiry(pem: string): number | null {
  const [leaf] = parseCertificates(pem);
  return leaf ? certificateFactsOf(leaf).validTo : null;
}

const joinLines = (name: string | undefined): string => (name ?? "").split("\n").join(", ");

/** Whole days until a certificate expires: 0 on its last day, negative after it. */
export const daysLeft = ({ validTo }: CertificateFacts, now: number): number => Math.floor((validTo - now) / 86_400);

type KeyPairCheck = {
  /** Why the pair cannot serve; empty if it can. */
  problems: readonly string[];
  /** Problems that clients will have, although the server can start. */
  warnings: readonly string[];
  /** The server's certificate; null if it is missing or invalid. */
  facts: CertificateFacts | null;
};

/** Days before expiry from which on there is a warning: people need up to a month to get a new certificate. */
const EXPIRY_WARNING_DAYS = 30;

/**
 * Checks a certificate, followed by its chain, and its key, both in PEM.
 * @param names names of the two files, for messages
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
  const problems = isComplete ? findMismatch({ ...pair, chain: chain as X509Certificate[] }, key, names) : unreadable;
  const facts = leaf ? certificateFactsOf(leaf) : null;
  return { problems, warnings: facts === null ? [] : findWarnings(facts, names.certificate, now), facts };
}

function readKey(pem: string, name: string): { key: KeyObject | null; problem: string | null } {
  const fail = (problem: string) => ({ key: null, problem: `${name} ${problem}` });
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) return fail("holds no private key in PEM form");
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type:.*ENCRYPTED/m.test(pem)) {
    return fail(
      "holds an encrypted key, and the server cannot ask for its password: decrypt it with " +
        "openssl pkey -in FILE -out NEW, readable by the server alone",
    );
  }
  try {
    return { key: createPrivateKey(pem), problem: null };
  } catch {
    return fail("holds a private key that cannot be read");
  }
}

function findMismatch(
  pair: { certificate: string; key: string; chain: readonly X509Certificate[] },
  key: KeyObject,
  names: { certificate: string; key: string },
): string[] {
  const index = pair.chain.findIndex((certificate) => certificate.checkPrivateKey(key));
  if (index < 0) return [`the key in ${names.key} does not belong to the certificate in ${names.certificate}`];
  if (index > 0) {
    const found = `the certificate of the key in ${names.key} is number ${index + 1} in ${names.certificate}`;
    return [`${found}: it must come first, followed by its chain`];
  }
  try {
    createSecureContext({ cert: pair.certificate, key: pair.key, minVersion: "TLSv1.2" });
    return [];
  } catch (error) {
    return [
      `${names.certificate} and ${names.key} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
    ];
  }
}

function findWarnings(facts: CertificateFacts, name: string, now: number): string[] {
  const day = (time: number): string => new Date(time * 1000).toISOString().slice(0, 10);
  if (now >= facts.validTo)
    return [`the certificate in ${name} expired on ${day(facts.validTo)}: clients will refuse it`];
  if (now < facts.validFrom)
    return [`the certificate in ${name} is not valid before ${day(facts.validFrom)}: clients will refuse it`];
  const days = daysLeft(facts, now);
  if (days >= EXPIRY_WARNING_DAYS) return [];
  return [`the certificate in ${name} expires on ${day(facts.validTo)}, in ${days} days`];
}
