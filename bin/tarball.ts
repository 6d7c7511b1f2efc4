// A compressed tar archive whose bytes depend only on its contents.

import { createGzip } from "node:zlib";
import { pack } from "tar-stream";

/** One file: its path in the archive, its bytes, and whether it is executable. */
export interface ArchivedFile {
  readonly path: string;
  readonly content: Buffer;
  readonly executable: boolean;
}

/** The archive of `files` below `root`/, in the order of their paths, owned by root and with the time `time`. */
export async function tarball(root: string, files: readonly ArchivedFile[], time: Date): Promise<Buffer> {
  const archive = pack();
  const directories = new Set<string>();
  const common = { mtime: time, uid: 0, gid: 0, uname: "root", gname: "root" };
  const adding = (async () => {
    for (const file of [...files].sort((a, b) => (a.path < b.path ? -1 : 1))) {
      const path = `${root}/${file.path}`;
      for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
        const directory = path.slice(0, at);
        if (!directories.has(directory))
          archive.entry({ ...common, name: `${directory}/`, type: "directory", mode: 0o755 });
        directories.add(directory);
      }
      await new Promise<void>((resolve, reject) => {
        const header = { ...common, name: path, mode: file.executable ? 0o755 : 0o644, size: file.content.length };
        archive.entry(header, file.content, (error) => (error ? reject(error) : resolve()));
      });
    }
    archive.finalize();
  })();
  // Node writes neither a name nor a time into the gzip header.
  const chunks: Buffer[] = [];
  for await (const chunk of archive.pipe(createGzip({ level: 9 }))) chunks.push(chunk as Buffer);
  await adding;
  return Buffer.concat(chunks);
}
