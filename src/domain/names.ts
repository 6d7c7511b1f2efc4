// The grammar of every name that the API accepts. Each pattern is the source text of a regular expression, because
// refusals print that exact spelling (messages 2) and the API document publishes it: two spellings of one set of
// characters are not interchangeable here. No pattern uses the m flag, so `$` is the end of the text and a trailing
// line feed never passes.

/** Flows; also users and organizations, whose names the specification does not define (messages 11). */
export const FLOW_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$`;
/** Login names; the grammar of flows, so that a personal organization can have its owner's name (semantics 1.2). */
export const USER_NAME = FLOW_NAME;
/** Display names: one line, at most 256 characters; empty stands for the login name. */
export const USER_DISPLAY_NAME = String.raw`^[^\u0000-\u001f\u007f-\u009f]*$`;
const VISIBLE = String.raw`[^\s\u0000-\u001f\u007f-\u009f]`;
/** Saved views: one line without spaces around it. */
export const VIEW_NAME = String.raw`^${VISIBLE}(?:[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*${VISIBLE})?$`;
/** E-mail addresses of users: non-empty on both sides of a single @, at most 254 characters. */
export const USER_EMAIL = String.raw`^[^\s@\u0000-\u001f\u007f]+@[^\s@\u0000-\u001f\u007f]+$`;
/** Organization names; see USER_NAME. */
export const ORGANIZATION_NAME = FLOW_NAME;
/** Trails (messages 12). */
export const TRAIL_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$`;
/** Policies (http-api-v2 2.1). */
export const POLICY_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_\.~]*$`;
/** Identifier of a Rego policy (newer-clients 5.1). */
export const REGO_POLICY_IDENTIFIER = TRAIL_NAME;
/** Custom attestation types (semantics 3.4). */
export const CUSTOM_TYPE_NAME = TRAIL_NAME;
/** New environments; stored names may also contain `~` (messages 9, semantics 6.2). */
export const ENVIRONMENT_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\.\-_]*$`;
/** Control identifiers; the word `tags` is refused as well (semantics 7.1). */
export const CONTROL_IDENTIFIER = String.raw`^[a-zA-Z0-9\-._~]+$`;
/** Notification actions (semantics 10). */
export const ACTION_NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_\.~/]*$`;
/** Service accounts; the length is 1 to 64 characters (semantics 1.5). */
/**
 * Whether a text can be an API key. Clients also send a key as the user name of basic authentication, which ends at a
 * colon; the upper bound keeps it well below the header size that the server accepts.
 */
export const isApiKeyText = (text: string): boolean => /^[!-9;-~]{16,1024}$/.test(text);

export const SERVICE_ACCOUNT_NAME = String.raw`^[a-zA-Z0-9\-]+$`;
/** Attestations and the entries of `target_artifacts` (semantics 10, wire-contract 6.1). */
export const ATTESTATION_NAME = String.raw`^[a-zA-Z0-9\-_,]+$`;
/** Template artifacts that reports refer to (semantics 2.1). */
export const REFERENCE_NAME = String.raw`^[a-zA-Z0-9\-_]+$`;
/** Tags of flows, environments, repos and controls (semantics 10). */
export const TAG_KEY = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$`;
/** Annotations of attestations and artifacts (semantics 3.1). */
export const ANNOTATION_KEY = "^[A-Za-z0-9_-]+$";
/** Labels of external URLs (semantics 3.1). */
export const URL_LABEL = "^[^=.]+$";
/** A whole SHA-256, lower case. */
export const FINGERPRINT = "^[a-f0-9]{64}$";
/** The abbreviated fingerprint that artifact reads accept (semantics 2.4). */
export const FINGERPRINT_PREFIX = "^[a-f0-9]{5,64}$";
/** A whole git commit id, lower case. */
export const COMMIT_SHA = "^[a-f0-9]{40}$";
/** Public ids: a UUID whose last group is cut to eight digits (semantics 1.9). */
export const PUBLIC_ID = "^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$";

/** Longest name of an attestation, artifact or type in a report, in UTF-16 code units. */
export const MAX_NAME_CHARS = 256;

/** File systems allow names of 255 bytes, and `.tar.gz` and the suffixes of temporary files need room. */
const MAX_PACKAGE_NAME_CHARS = 200;
/** Long enough for a person to recognize the fingerprint. */
const SHORT_FINGERPRINT_CHARS = 12;

/**
 * The name of an audit package: the directory in its archive, and the name of the download without its extension. It
 * depends on the records alone, so that the same records give the same bytes.
 * @param about the current name of the flow, and either the name of the trail or the whole fingerprint of the artifact.
 *   None of them contains a character that is special to file systems or tar.
 */
export function formatAuditPackageName(
  about: { flow: string } & ({ trail: string } | { fingerprint: string }),
): string {
  const subject = "trail" in about ? about.trail : about.fingerprint.slice(0, SHORT_FINGERPRINT_CHARS);
  return `audit-package-${about.flow}-${subject}`.slice(0, MAX_PACKAGE_NAME_CHARS);
}

/** The same of a package with a binder of a period, in epoch seconds; the days at its ends are in the name. */
export function formatAuditBinderName({ name, from, to }: { name: string; from: number; to: number }): string {
  const day = (at: number): string => new Date(at * 1000).toISOString().slice(0, "2026-01-31".length);
  const days = `${day(from)}-${day(to)}`;
  return `audit-binder-${name.slice(0, MAX_PACKAGE_NAME_CHARS - days.length)}-${days}`;
}

// Not an LRU: its keys are constants of the code, some twenty of them, so it cannot grow.
const compiledPatterns = new Map<string, RegExp>();

/**
 * Whether `text` as a whole matches a pattern.
 * @param pattern a constant such as those above; it is compiled once and cached for good, so never pass a user's own
 *   expression
 */
export function matches(pattern: string, text: string): boolean {
  let expression = compiledPatterns.get(pattern);
  if (expression === undefined) {
    expression = new RegExp(pattern);
    compiledPatterns.set(pattern, expression);
  }
  return expression.test(text);
}
