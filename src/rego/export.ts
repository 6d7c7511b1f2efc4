/** An evaluation as files that OPA itself understands (newer-clients 7.3). */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { END_OF_ARCHIVE_BYTES, memberHeader, memberPadding } from "../archive/tar.ts";
import { kindOfFile } from "../domain/rego/bundle.ts";
import type { RegoEvaluationRow } from "../store/policies/rego-evaluations.ts";
import { unpackBundle } from "./bundle-archive.ts";
import type { RegoDocuments } from "./documents.ts";
import { toNanoseconds } from "./stored-run.ts";

const isRead = (path: string): boolean => ["module", "data"].includes(kindOfFile(path));

type Member = { name: string; size: number; content: AsyncIterable<Uint8Array> | Iterable<Uint8Array> };

/**
 * A gzipped tar: `input.json` if there is one, `data.json`, the files that the engine reads in `policy/`, the others in
 * `other/`, and a page that says how to use it. The input is unpacked while it is sent, so that it is never in memory
 * as a whole.
 * @throws as reading documents does
 */
export async function exportEvaluation(
  documents: Pick<RegoDocuments, "read" | "openUnpacked">,
  row: RegoEvaluationRow,
): Promise<Readable> {
  const files = Object.entries(await unpackBundle(await documents.read(row.bundle_digest)));
  const { input_digest: digest, input_bytes: size } = row;
  const input =
    digest === null || size === null
      ? []
      : [{ name: "input.json", size, content: await documents.openUnpacked(digest) }];
  const isSingle = files.length === 1;
  const members: Member[] = [
    text("README.txt", describe(row)),
    text("data.json", dataOf(row)),
    ...input,
    ...files.map(([path, source]) =>
      text(isRead(path) ? `policy/${path}` : isSingle ? `policy/${path}.rego` : `other/${path}`, source),
    ),
  ];
  const packed = createGzip();
  // The failure of the source is that of the result, and closing the result closes the source.
  pipeline(Readable.from(archive(members, row.requested_at)), packed).catch(() => undefined);
  return packed;
}

function text(name: string, content: string): Member {
  const bytes = Buffer.from(content);
  return { name, size: bytes.length, content: [bytes] };
}

/** As `tar` (archive/tar.ts), for content that has to be waited for. @param mtime epoch seconds */
async function* archive(members: readonly Member[], mtime: number): AsyncGenerator<Uint8Array> {
  for (const { name, size, content } of members) {
    yield* memberHeader({ name, size, mtime });
    let written = 0;
    for await (const block of content) {
      written += block.length;
      yield block;
    }
    if (written !== size) throw new Error(`'${name}' has ${written} bytes instead of ${size}`);
    yield memberPadding(size);
  }
  yield new Uint8Array(END_OF_ARCHIVE_BYTES);
}

const dataOf = ({ params_json, requested_at }: RegoEvaluationRow): string =>
  `{"params":${params_json},"kosli":{"evaluation_time":${toNanoseconds(requested_at)}}}\n`;

const verdictOf = ({ status, allow }: RegoEvaluationRow): string =>
  status === "completed" ? (allow === 1 ? "allow" : "deny") : status;

const describe = (row: RegoEvaluationRow): string =>
  `Evaluation ${row.public_id}

Verdict:  ${verdictOf(row)}
Engine:   ${row.engine ?? "not run"}
Input:    ${row.input_sha256 === null ? "none" : `input.json, SHA-256 ${row.input_sha256}`}
Policy:   policy/, SHA-256 of paths and sources ${row.bundle_sha256}

To repeat it with OPA, put the package of the policy in place of <package>:

    opa eval -i input.json -d data.json -d policy 'data.<package>.allow'

The server fixes what OPA takes from the machine: time.now_ns() is ${toNanoseconds(row.requested_at)}, and rand.intn and
uuid.rfc4122 draw from a seed made of the id of the evaluation. A policy that reads these may give another verdict here.
`;
