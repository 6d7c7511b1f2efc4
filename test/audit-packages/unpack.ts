/** Unpacks audit packages in memory and verifies every digest. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { extract } from "tar-stream";
import type { Header } from "tar-stream";
import * as assert from "uvu/assert";

/** `directory`: the directory that holds all members of an audit package. `names` are relative to it. */
export type Package = Unpacked & { directory: string };
export type Unpacked = {
  names: string[];
  headers: Map<string, Header>;
  bytes(name: string): Buffer;
  text(name: string): string;
  json<T = any>(name: string): T;
};

export const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");

/** The members of a tar archive, in order. */
export async function untar(bytes: Buffer): Promise<Unpacked> {
  const members = new Map<string, Buffer>();
  const headers = new Map<string, Header>();
  const unpacking = extract();
  Readable.from([bytes]).pipe(unpacking);
  for await (const entry of unpacking) {
    assert.not.ok(members.has(entry.header.name), `${entry.header.name} is there once`);
    members.set(entry.header.name, await buffer(entry));
    headers.set(entry.header.name, entry.header);
  }
  const content = (name: string): Buffer => {
    const found = members.get(name);
    if (!found) throw new Error(`no member '${name}' among ${[...members.keys()].join(", ")}`);
    return found;
  };
  return {
    names: [...members.keys()],
    headers,
    bytes: content,
    text: (name) => content(name).toString(),
    json: (name) => JSON.parse(content(name).toString()),
  };
}

/**
 * Unpacks a package and asserts that it has one top directory, and that manifest.json and SHA256SUMS list all of it.
 */
export async function unpack(bytes: Buffer): Promise<Package> {
  const archive = await untar(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes);
  const directory = archive.names[0]?.split("/")[0] ?? "";
  for (const name of archive.names) assert.ok(name.startsWith(`${directory}/`), `${name} lies below ${directory}`);
  const unpacked: Unpacked = {
    names: archive.names.map((name) => name.slice(directory.length + 1)),
    headers: new Map([...archive.headers].map(([name, header]) => [name.slice(directory.length + 1), header])),
    bytes: (name) => archive.bytes(`${directory}/${name}`),
    text: (name) => archive.text(`${directory}/${name}`),
    json: (name) => archive.json(`${directory}/${name}`),
  };
  const listed = unpacked
    .text("SHA256SUMS")
    .split("\n")
    .slice(0, -1)
    .map((line) => [line.slice(66), line.slice(0, 64)]);
  assert.equal(
    listed.map(([name]) => name),
    unpacked.names.slice(1),
  );
  for (const [name, digest] of listed) assert.is(sha256(unpacked.bytes(name as string)), digest, name);
  const listedMembers = unpacked
    .json("manifest.json")
    .members.map(({ name, size, sha256: digest }: { name: string; size: number; sha256: string }) => [
      name,
      size,
      digest,
    ]);
  assert.equal(
    listedMembers,
    unpacked.names.slice(2).map((name) => [name, unpacked.bytes(name).length, sha256(unpacked.bytes(name))]),
  );
  return { ...unpacked, directory };
}
