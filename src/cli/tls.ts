/** The certificate and the key of a server, read from the files of the configuration. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { systemSources } from "../server/app.ts";
import { checkPair } from "../config/tls-certificate.ts";
import type { CertificateFacts } from "../config/tls-certificate.ts";
import type { Pair } from "../server/listener.ts";
import type { Config } from "../config/options.ts";
import { readText } from "./command-config.ts";
import { commandFailure } from "./framework.ts";
import type { Io } from "./framework.ts";

export type ReadPair = { pair: Pair; facts: CertificateFacts | null; warnings: readonly string[] };

/**
 * The pair that the configuration names; null without one.
 * @throws a command failure that says of each file why it cannot be used.
 */
export async function readPair(io: Io, { tlsCert, tlsKey }: Config): Promise<ReadPair | null> {
  if (tlsCert === null || tlsKey === null) return null;
  const pair = { certificate: await readText(io, tlsCert), key: await readText(io, tlsKey) };
  const { problems, warnings, facts } = checkPair(pair, { certificate: tlsCert, key: tlsKey }, systemSources.now());
  if (problems.length > 0) throw commandFailure(problems);
  const open =
    statSync(resolve(io.cwd, tlsKey)).mode & FOR_OTHERS
      ? [`everybody on this machine can read the private key in ${tlsKey}: chmod 0600 ${tlsKey}`]
      : [];
  return { pair, facts, warnings: [...open, ...warnings] };
}

/** The right of everybody to read. That of a group is left alone: some systems give keys to one. */
const FOR_OTHERS = 0o004;
