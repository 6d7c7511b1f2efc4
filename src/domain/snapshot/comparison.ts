/** What differs between two snapshots, for people. Pure. */

/** The service of an image, and its version: `registry/acme/web:2.41.0` is `registry/acme/web` and `2.41.0`. */
export function splitName(name: string): { service: string; version: string | null } {
  const [, service = name, version = null] = /^(.+?)(?::([^:/@]+))?(?:@sha256:[0-9a-f]+)?$/s.exec(name) ?? [];
  return { service, version };
}

/** What people call the version of an artifact: its tag, or the beginning of its fingerprint. */
export const versionOf = ({ name, fingerprint }: { name: string; fingerprint: string }): string =>
  splitName(name).version ?? (fingerprint === "" ? "" : fingerprint.slice(0, 7));
