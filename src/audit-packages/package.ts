/** An audit package as a stream of bytes: the gathered members, put in order, as a gzipped tar archive. */
import { formatAuditPackageName } from "../domain/names.ts";
import { gzip } from "../archive/gzip.ts";
import { tar } from "../archive/tar.ts";
import type { TarEntry } from "../archive/tar.ts";
import type { EvidenceFiles } from "./evidence.ts";
import { gatherRecords } from "./gather.ts";
import { listOmittedEvidence } from "./gather-evidence.ts";
import { mapEach } from "./gathering.ts";
import type { PackageSource } from "./gathering.ts";
import type { PackageSubject } from "../store/environments/audit-packages.ts";
import { createMembers, stringifyList } from "./members.ts";
import type { Members } from "./members.ts";
import { renderReadme } from "./readme.ts";
import type { About, AuditReport, BinderAbout, OmittedEvidence, Sample } from "./report.ts";

/** Incremented with every change that a program reading packages has to know of. */
const FORMAT_VERSION = 2;

type PackageInput = PackageSource & {
  /** Renders the readable report as PDF. */
  render: (report: AuditReport) => Uint8Array;
};

/**
 * Bytes made on demand. A caller that stops early calls `return`. An empty piece means that the next bytes are not
 * available yet.
 */
export type ByteGenerator = Generator<Uint8Array, void, undefined>;

/** The readable report alone. Reads the database before it returns. */
export function generateReport({ render, ...source }: PackageInput): ByteGenerator {
  const pdf = render(gatherRecords(source, null));
  return mapEach([pdf], (bytes) => bytes);
}

/**
 * A whole package. Reads the database before it returns; the bytes need it no longer.
 * @param pathFor returns paths of files that do not exist yet, for the spools of the package
 */
export function generatePackage({ render, ...source }: PackageInput, pathFor: (name: string) => string): ByteGenerator {
  const members = createMembers(pathFor);
  try {
    const report = gatherRecords(source, members);
    const pdfName = source.subject.kind === "trail" ? "trail-page.pdf" : "artifact-page.pdf";
    const sealed = { ...report, directory: formatAuditPackageName(report.about) };
    return sealPackage(members, sealed, {
      source,
      addFront() {
        members.text("README.txt", [renderReadme(report, pdfName)]);
        members.bytes(pdfName, render(report));
      },
    });
  } catch (error) {
    members.close();
    throw error;
  }
}

/** `directory`: of all members. `asOf`: epoch seconds up to which the package covers the records. */
type Sealed = {
  about: About | BinderAbout;
  directory: string;
  asOf: number;
  omitted: Sample<OmittedEvidence>;
};

/** Puts manifest and checksums in front of all members. @returns the bytes, which need the database no longer */
export function sealPackage(
  members: Members,
  sealed: Sealed,
  { source, addFront }: { source: PackageSource<PackageSubject>; addFront: () => void },
): ByteGenerator {
  members.prepend(addFront);
  members.prepend(() =>
    members.text(
      "manifest.json",
      manifest(sealed, members, () => listOmittedEvidence(source)),
    ),
  );
  members.prepend(() => members.text("SHA256SUMS", checksums(members)));
  return archive(members, sealed, source.files);
}

function* archive(members: Members, { directory, asOf }: Sealed, files: EvidenceFiles): ByteGenerator {
  try {
    yield* gzip(tar(archiveEntries(members, { directory, asOf }, files)));
  } finally {
    members.close();
  }
}

/**
 * The members as archive entries, all below one directory, so that unpacking never spills files into the current
 * directory. manifest.json and SHA256SUMS name members relative to it.
 */
function* archiveEntries(
  members: Members,
  { directory, asOf }: { directory: string; asOf: number },
  files: EvidenceFiles,
): Generator<TarEntry> {
  for (const member of members.all()) {
    const { name, size, sha256, mtime, offset } = member;
    const content = offset === null ? files.read(sha256, size) : members.content(member);
    yield { name: `${directory}/${name}`, size, mtime: mtime ?? asOf, content };
  }
}

/** @param listOmitted lists all omitted evidence; called when the report holds only some of it */
function* manifest(
  { about, asOf, omitted }: Sealed,
  members: Members,
  listOmitted: () => Iterable<OmittedEvidence>,
): Generator<string> {
  const head = { format: "assay-audit-package", format_version: FORMAT_VERSION, about, as_of: asOf };
  const allOmitted = omitted.total > omitted.items.length ? listOmitted() : omitted.items;
  yield JSON.stringify(head, null, 2).slice(0, -"\n}".length);
  yield ',\n  "not_included": ';
  yield* stringifyList(
    mapEach(allOmitted, ({ name, digest, size, state }) => ({ name, size, sha256: digest, reason: state })),
  );
  yield ',\n  "members": ';
  yield* stringifyList(mapEach(members.all(), ({ name, size, sha256 }) => ({ name, size, sha256 })));
  yield "\n}\n";
}

/** In the format of sha256sum. No name holds a line break or a backslash, which that format would escape. */
const checksums = (members: Members): Iterable<string> =>
  mapEach(members.all(), ({ name, sha256 }) => `${sha256}  ${name}\n`);
