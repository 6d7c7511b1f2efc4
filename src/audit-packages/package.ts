import { auditPackageName } from "../domain/names.ts";
import type { PackageSubject } from "../store/flows/audit-packages.ts";
import type { EvidenceFiles } from "./evidence.ts";
import { gather, lostEvidence } from "./gather.ts";
import { gzip } from "../archive/gzip.ts";
import { createMembers, jsonList } from "./members.ts";
import type { PackageMember, Members } from "./members.ts";
import { readme } from "./readme.ts";
import type { LostEvidence, AuditReport } from "./report.ts";
import { tar } from "../archive/tar.ts";
import type { TarEntry } from "../archive/tar.ts";
import type { PresenterContext } from "../contract/presenter-context.ts";

/** Goes up when a reader of packages would have to know. */
const FORMAT_VERSION = 2;

export type Making = {
  showing: PresenterContext;
  subject: PackageSubject;
  files: EvidenceFiles;
  /** The readable report as PDF. */
  render: (report: AuditReport) => Uint8Array;
};

/**
 * Made on demand; whoever gives it up before its end calls `return`. An empty piece: the next bytes are not here yet,
 * ask again later.
 */
export type Bytes = Generator<Uint8Array, void, undefined>;

/** The readable report. Reads the database. */
export function reportBytes({ showing, subject, files, render }: Making): Bytes {
  const report = render(gather(showing, subject, files, null));
  return mapped([report], (bytes) => bytes);
}

/**
 * Reads the database and gives the bytes of the package, which need it no more.
 * @param path gives the paths of files that do not exist, for what is put together
 */
export function packageBytes({ showing, subject, files, render }: Making, path: (name: string) => string): Bytes {
  const members = createMembers(path);
  try {
    const report = gather(showing, subject, files, members);
    const pdf = subject.kind === "trail" ? "trail-page.pdf" : "artifact-page.pdf";
    members.putInFront(() => {
      members.text("README.txt", [readme(report, pdf)]);
      members.bytes(pdf, render(report));
    });
    members.putInFront(() =>
      members.text(
        "manifest.json",
        manifest(report, members, () => lostEvidence(showing, subject, files)),
      ),
    );
    members.putInFront(() => members.text("SHA256SUMS", sums(members)));
    return sent(members, report, files);
  } catch (error) {
    members.close();
    throw error;
  }
}

function* sent(members: Members, { about, asOf }: AuditReport, files: EvidenceFiles): Bytes {
  try {
    yield* gzip(tar(entries(members, { directory: auditPackageName(about), asOf }, files)));
  } finally {
    members.close();
  }
}

/**
 * The members as entries of the archive, all below one directory: unpacking never spills into the directory where
 * somebody happens to be. manifest.json and SHA256SUMS name members relative to it.
 */
function* entries(
  members: Members,
  { directory, asOf }: { directory: string; asOf: number },
  files: EvidenceFiles,
): Generator<TarEntry> {
  for (const member of members.all()) {
    const { name, size, sha256, mtime, at } = member;
    const content = at === null ? files.read(sha256, size) : members.content(member);
    yield { name: `${directory}/${name}`, size, mtime: mtime ?? asOf, content };
  }
}

function* manifest(
  { about, asOf, lost }: AuditReport,
  members: Members,
  all: () => Iterable<LostEvidence>,
): Generator<string> {
  const head = { format: "assay-audit-package", format_version: FORMAT_VERSION, about, as_of: asOf };
  yield JSON.stringify(head, null, 2).slice(0, -"\n}".length);
  yield ',\n  "not_included": ';
  yield* jsonList(
    mapped(lost.total > lost.items.length ? all() : lost.items, ({ name, digest, size, state }) => ({
      name,
      size,
      sha256: digest,
      reason: state,
    })),
  );
  yield ',\n  "members": ';
  yield* jsonList(mapped(members.all(), ({ name, size, sha256 }) => ({ name, size, sha256 })));
  yield "\n}\n";
}

/** As sha256sum writes it. No name holds a line break or a backslash, which it would escape. */
const sums = (members: Members): Iterable<string> =>
  mapped(members.all(), ({ name, sha256 }: PackageMember) => `${sha256}  ${name}\n`);

function* mapped<From, To>(items: Iterable<From>, as: (item: From) => To): Generator<To, void, undefined> {
  for (const item of items) yield as(item);
}
