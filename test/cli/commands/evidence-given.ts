/** A data directory with evidence and without a server, and a separate prefix on a storage. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fresh, startServer } from "../../given.ts";
import { contentOf, digestOf } from "../../evidence/given.ts";
import { BUCKET, KEYS } from "../../evidence/s3-server.ts";
import type { Storage } from "../../evidence/s3-server.ts";
import { cli, inDirectory } from "../in-process.ts";

export const CONTENTS = [contentOf(10, 1), contentOf(1000, 2), contentOf(300_000, 3)];
export const BYTES = 301_010;
export const DIGESTS = CONTENTS.map(digestOf).sort();

/** Calls `body` with a data directory with referenced evidence, a storage location, and a command for both. */
export async function onData<T>(
  storage: Pick<Storage, "endpoint" | "directory">,
  body: (given: {
    directory: string;
    place: string;
    prefix: string;
    env: Record<string, string>;
    vault(...words: string[]): ReturnType<typeof cli>;
    inDirectory(): string[];
    onStorage(): string[];
  }) => Promise<T>,
): Promise<T> {
  return inDirectory(async (directory) => {
    const server = await startServer({ directory, limits: { smallEvidence: 0 } });
    const at = server.given.org();
    const flow = await server.given.flow(at);
    const trail = await server.given.trail(at, { flow });
    for (const content of CONTENTS)
      await server.given.attestation(at, {
        flow,
        trail,
        file: { name: "attachment_file", filename: "report.bin", content },
      });
    await server.stop();
    const prefix = fresh("prefix");
    const env = {
      ASSAY_DATA: directory,
      ASSAY_S3_ENDPOINT: storage.endpoint,
      ASSAY_S3_ACCESS_KEY: KEYS.accessKey,
      ASSAY_S3_SECRET_KEY: KEYS.secretKey,
    };
    const below = (root: string): string[] => {
      try {
        return readdirSync(root, { recursive: true, withFileTypes: true })
          .flatMap((entry) =>
            entry.isFile() && !/\.(md5|json)$/.test(entry.name)
              ? [entry.parentPath.slice(-2) + entry.name.replace("._S3rver_object", "")]
              : [],
          )
          .sort();
      } catch {
        return [];
      }
    };
    return body({
      directory,
      prefix,
      env,
      place: `s3://${BUCKET}/${prefix}`,
      vault: (...words) => cli(["vault", ...words], { env }),
      inDirectory: () => below(join(directory, "evidence")),
      onStorage: () => below(join(storage.directory, prefix)),
    });
  });
}
