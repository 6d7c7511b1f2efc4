// An audit package with a gigabyte of evidence: speed, and memory of the server, compared with tar and gzip on the same
// file at the same time.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { measured } from "./evidence.ts";
import type { Transfer } from "./evidence.ts";
import type { Server } from "./processes.ts";
import { KEY, ORG, flowOf, trailName } from "./world.ts";

/**
 * Downloads the package of the trail that has the file with that digest. A small package before it starts the package
 * thread, so that only the transfer counts as growth.
 */
export async function downloadPackage(
  server: Server,
  { data, digest, megabytes }: { data: string; digest: string; megabytes: number },
): Promise<{ own: Transfer; bare: number }> {
  await download(server, 1, 0);
  const own = await measured(server, megabytes, () => download(server, 0, megabytes * 1_000_000));
  const startedAt = performance.now();
  const bare = spawn(
    "sh",
    ["-c", 'tar -cf - -C "$0" "$1" | gzip >/dev/null', join(data, "evidence", digest.slice(0, 2)), digest.slice(2)],
    { stdio: "ignore" },
  );
  const [code] = (await once(bare, "close")) as [number | null];
  if (code !== 0) throw new Error(`tar and gzip ended with ${code}`);
  return { own, bare: megabytes / ((performance.now() - startedAt) / 1000) };
}

async function download({ url }: Server, trail: number, atLeast: number): Promise<void> {
  const response = await fetch(`${url}/api/v2/trails/${ORG}/${flowOf(trail)}/${trailName(trail)}/audit_package`, {
    headers: { Authorization: `Bearer ${KEY}` },
  });
  let bytes = 0;
  for await (const chunk of response.body ?? []) bytes += chunk.length;
  if (response.status !== 200 || bytes < atLeast)
    throw new Error(`the package was answered ${response.status} with ${bytes} bytes`);
}
