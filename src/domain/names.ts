// The grammar of every name the API takes. Each is kept as the source text of a regular expression, because that exact
// spelling is printed in refusals (messages 2) and published in the API document: two spellings of one set of
// characters are not interchangeable here. No pattern uses the m flag, so `$` is the end of the text and a trailing
// line feed never passes.

/** Flows; also user and organization names, for which the specification is silent (messages 11). */
export const FLOW_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$`;
/** Login names; same grammar as flows, so that a personal organization can carry its owner's name (semantics 1.2). */
export const USER_NAME = FLOW_NAME;
/** Organization names; see USER_NAME. */
export const ORGANIZATION_NAME = FLOW_NAME;
/** Trails (messages 12). */
export const TRAIL_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$`;
/** Policies (http-api-v2, policy input). */
export const POLICY_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_\.~]*$`;
/** Custom attestation types (semantics 3.4). */
export const CUSTOM_TYPE_NAME = TRAIL_NAME;
/** New environments; stored ones with a `~` still load (messages 9, semantics 6.2). */
export const ENVIRONMENT_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\.\-_]*$`;
/** Control identifiers; the word `tags` is refused besides (semantics 7.1). */
export const CONTROL_IDENTIFIER = String.raw`^[a-zA-Z0-9\-._~]+$`;
/** Notification actions (semantics 10). */
export const ACTION_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_\.~/]*$`;
/** Service accounts, 1 to 64 characters besides (semantics 1.5). */
export const SERVICE_ACCOUNT_NAME = String.raw`^[a-zA-Z0-9\-]+$`;
/** Attestations, and the entries of `target_artifacts` (semantics 10, wire-contract 6.1). */
export const ATTESTATION_NAME = String.raw`^[a-zA-Z0-9\-_,]+$`;
/** The artifacts of a template, to which reports refer (semantics 2.1). */
export const REFERENCE_NAME = String.raw`^[a-zA-Z0-9\-_]+$`;
/** Tags of flows, environments, repos and controls (semantics 10). */
export const TAG_KEY = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$`;
/** Annotations of attestations and artifacts (semantics 3.1). */
export const ANNOTATION_KEY = "^[A-Za-z0-9_-]+$";
/** Labels of external URLs (semantics 3.1). */
export const URL_LABEL = "^[^=.]+$";
/** A whole SHA-256, lower case. */
export const FINGERPRINT = "^[a-f0-9]{64}$";
/** What artifact reads accept in place of a whole fingerprint (semantics 2.4). */
export const FINGERPRINT_PREFIX = "^[a-f0-9]{5,64}$";
/** A whole git commit id, lower case. */
export const COMMIT_SHA = "^[a-f0-9]{40}$";
/** Ids of this service: a UUID with its last group cut to eight digits (semantics 1.9). */
export const PUBLIC_ID = "^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$";

/** Longest name that a report can give an attestation, an artifact or a type, in UTF-16 code units. */
export const MAX_NAME_CHARS = 256;

/** File systems allow names of 255 bytes; the endings `.tar.gz` and those of temporary files need room too. */
const MAX_PACKAGE_NAME_CHARS = 200;
/** Characters of a fingerprint that people recognize. */
const SHORT_FINGERPRINT_CHARS = 12;

/**
 * The name of an audit package: the directory that its archive unpacks to, and the file name of the download without
 * its ending. It follows from the records alone, so that the same records give the same bytes.
 * @param about the current name of the flow, and the name of the trail or the whole fingerprint of the artifact; none
 * of
 *   them holds a character that file systems or tar treat specially
 */
export function formatAuditPackageName(
  about: { flow: string } & ({ trail: string } | { fingerprint: string }),
): string {
  const subject = "trail" in about ? about.trail : about.fingerprint.slice(0, SHORT_FINGERPRINT_CHARS);
  return `audit-package-${about.flow}-${subject}`.slice(0, MAX_PACKAGE_NAME_CHARS);
}

const compiled = new Map<string, RegExp>();

/**
 * Whether `text` matches one of the patterns above as a whole.
 * @param pattern one of the constants of this file; compiled once and kept, so never pass a user's own expression
 */
export function matches(pattern: string, text: string): boolean {
  let expression = compiled.get(pattern);
  if (expression === undefined) {
    expression = new RegExp(pattern);
    compiled.set(pattern, expression);
  }
  return expression.test(text);
}
