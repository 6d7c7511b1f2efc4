/** Reads the TLS certificate and private key of a server from the configured files. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { checkKeyPair } from "../config/tls-certificate.ts";
import type { CertificateFacts } from "../config/tls-certificate.ts";
import type { CertificatePair } from "../server/listener.ts";
import type { Config } from "../config/options.ts";
import { readText } from "./command-config.ts";
import { CommandError } from "./framework.ts";
import type { Io } from "./framework.ts";
import { systemSources } from "../clock.ts";

export type CheckedKeyPair = { pair: CertificatePair; facts: CertificateFacts | null; warnings: readonly string[] };

/**
 * Reads and checks the configured pair; null if none is configured.
 * @throws CommandError that explains for each file why it cannot be used
 */
export async function readKeyPair(io: Io, { tlsCert, tlsKey }: Config): Promise<CheckedKeyPair | null> {
  if (tlsCert === null || tlsKey === null) return null;
  const pair = { certificate: await readText(io, tlsCert), key: await readText(io, tlsKey) };
  const { problems, warnings, facts } = checkKeyPair(pair, { certificate: tlsCert, key: tlsKey }, systemSources.now());
  if (problems.length > 0) throw new CommandError(problems);
  const open =
    statSync(resolve(io.cwd, tlsKey)).mode & WORLD_READABLE
      ? [`every user of this machine can read the private key in ${tlsKey}: chmod 0600 ${tlsKey}`]
      : [];
  return { pair, facts, warnings: [...open, ...warnings] };
}

/** Read permission for others. Group permission is acceptable: some systems hand out keys through a group. */
const WORLD_READABLE = 0o004;
