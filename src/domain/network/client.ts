/** Which client sends a request, as far as it matters: releases of the Kosli CLI, and all others. */

/** `name`: `Kosli/` and the release, `other` for anything else. `isKosli`: it calls itself Kosli, released or not. */
type Client = { name: string; isKosli: boolean };

/** The name of every client that is not a release of the Kosli CLI. */
export const OTHER_CLIENT = "other";

const RELEASE = /^Kosli\/v?\d{1,5}\.\d{1,5}\.\d{1,5}(?!\d)/;

/** The client by its `User-Agent` (wire-contract 1.2). */
export function clientOf(userAgent: string | undefined): Client {
  if (!userAgent?.startsWith("Kosli/")) return { name: OTHER_CLIENT, isKosli: false };
  return { name: RELEASE.exec(userAgent)?.[0] ?? OTHER_CLIENT, isKosli: true };
}

/**
 * Something that a client sent and this server does not know. The operator sees it, and learns of a newer client
 * before that client needs what is missing.
 * - `key`: a top-level key of an open body, which was ignored. `operation`: the id of the operation.
 * - `route`: no operation has this method and path. `operation`: both, `name` is empty.
 * - `attestation_kind`: a kind of attestation that is not known. `operation`: method and path.
 */
export type UnknownInput = {
  /** null: the path names no organization of the caller. */
  organizationId: number | null;
  /** `Client.name` */
  client: string;
  kind: "key" | "route" | "attestation_kind";
  operation: string;
  name: string;
};
