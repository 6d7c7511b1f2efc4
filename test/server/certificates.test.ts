import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseCertificates, checkKeyPair, daysLeft, certificateFactsOf } from "../../src/config/tls-certificate.ts";
import { AUTHORITY } from "../notifications/certificates.ts";
import { ENCRYPTED_KEYS, ENDED, FIRST, SECOND } from "./certificates.ts";

const test = suite("server/certificates");

const NAMES = { certificate: "tls.crt", key: "tls.key" };
const NOW = Date.parse("2026-06-01T00:00:00Z") / 1000;
const END = Date.parse("2120-01-01T00:00:00Z") / 1000;
const problems = (pair: { certificate: string; key: string }): readonly string[] =>
  checkKeyPair(pair, NAMES, NOW).problems;

test("reads the names and the validity of a certificate", () => {
  const [certificate] = parseCertificates(FIRST.certificate);
  const facts = certificateFactsOf(certificate as NonNullable<typeof certificate>);
  assert.equal(facts, {
    subject: "O=Assay test, CN=assay.example.com",
    issuer: "O=Assay test, CN=assay.example.com",
    names: ["assay.example.com", "localhost", "127.0.0.1"],
    validFrom: Date.parse("2020-01-01T00:00:00Z") / 1000,
    validTo: END,
  });
  assert.equal(
    {
      "one day before": daysLeft(facts, END - 86_400),
      "less than a day before": daysLeft(facts, END - 86_399),
      "a second before": daysLeft(facts, END - 1),
      "at the end": daysLeft(facts, END),
      "a second after": daysLeft(facts, END + 1),
    },
    {
      "one day before": 1,
      "less than a day before": 0,
      "a second before": 0,
      "at the end": 0,
      "a second after": -1,
    },
  );
  const [authority] = parseCertificates(AUTHORITY);
  assert.equal(certificateFactsOf(authority as NonNullable<typeof authority>).names, []);
});

test("accepts a matching pair, alone and with a chain", () => {
  assert.equal(checkKeyPair(FIRST, NAMES, NOW), {
    problems: [],
    warnings: [],
    facts: certificateFactsOf(parseCertificates(FIRST.certificate)[0] as never),
  });
  assert.equal(
    problems({ ...FIRST, certificate: `words before\n${FIRST.certificate}\nwords between\n${AUTHORITY}` }),
    [],
  );
});

test("says of each file what is wrong with it", () => {
  const nothing = ["tls.crt holds no certificate in PEM form", "tls.key holds no private key in PEM form"];
  assert.equal(problems({ certificate: "", key: "" }), nothing);
  assert.equal(problems({ certificate: FIRST.key, key: FIRST.certificate }), nothing, "the two files are swapped");
  assert.equal(problems({ ...FIRST, certificate: FIRST.certificate.replace(/\n.{20}/, "\nAAAAAAAAAAAAAAAAAAAA") }), [
    "tls.crt: certificate 1 cannot be read",
  ]);
  assert.equal(
    problems({
      ...FIRST,
      certificate: `${FIRST.certificate}${AUTHORITY.replace(/\n.{20}/, "\nAAAAAAAAAAAAAAAAAAAA")}`,
    }),
    ["tls.crt: certificate 2 cannot be read"],
  );
  assert.equal(problems({ ...FIRST, key: FIRST.key.replace(/\n.{20}/, "\nAAAAAAAAAAAAAAAAAAAA") }), [
    "tls.key holds a private key that cannot be read",
  ]);
  for (const key of ENCRYPTED_KEYS)
    assert.match(
      problems({ ...FIRST, key })[0] ?? "",
      /^tls\.key holds an encrypted key, .* openssl pkey -in FILE -out NEW/,
    );
  assert.equal(problems({ ...FIRST, key: SECOND.key }), [
    "the key in tls.key does not belong to the certificate in tls.crt",
  ]);
  assert.equal(problems({ ...FIRST, certificate: AUTHORITY + FIRST.certificate }), [
    "the certificate of the key in tls.key is number 2 in tls.crt: it must come first, followed by its chain",
  ]);
});

test("an expired certificate, or one that is not valid yet or expires soon, is a warning and not a problem", () => {
  const warned = (pair: { certificate: string; key: string }, now: number): readonly string[] => {
    const { problems, warnings } = checkKeyPair(pair, NAMES, now);
    assert.equal(problems, []);
    return warnings;
  };
  assert.equal(warned(ENDED, NOW), ["the certificate in tls.crt expired on 2021-01-01: clients will refuse it"]);
  assert.equal(warned(FIRST, 0), ["the certificate in tls.crt is not valid before 2020-01-01: clients will refuse it"]);
  assert.equal(warned(FIRST, END - 30 * 86_400), []);
  assert.equal(warned(FIRST, END - 30 * 86_400 + 1), ["the certificate in tls.crt expires on 2120-01-01, in 29 days"]);
});

test.run();
