/** Attached files: those in the package, and those that it omits because they are missing or damaged. */
import { evidenceFileName } from "./file-names.ts";
import type { Gathering, PackageSource, ReportBuilder } from "./gathering.ts";
import type { PackageSubject } from "../store/environments/audit-packages.ts";
import type { OmittedEvidence } from "./report.ts";

/** Adds all attached files that can be read, and reports the others. */
export function gatherEvidence(
  gathering: PackageSource<PackageSubject> &
    Pick<Gathering, "members"> & { report: Pick<ReportBuilder, "evidence" | "omitted"> },
): void {
  const { report, members } = gathering;
  for (const file of listEvidence(gathering)) {
    if (file.state !== "included") {
      report.omitted.add(file);
      continue;
    }
    report.evidence.files += 1;
    report.evidence.bytes += file.size;
    members?.evidence(file);
  }
}

/** All attached files that the package omits; the report holds only a sample of them. */
export function* listOmittedEvidence(source: PackageSource<PackageSubject>): Generator<OmittedEvidence> {
  for (const { mtime: _, ...file } of listEvidence(source)) if (file.state !== "included") yield file;
}

/** All attached files by digest, each once per member name. */
function* listEvidence({
  context,
  subject,
  files,
}: PackageSource<PackageSubject>): Generator<OmittedEvidence & { mtime: number }> {
  let digest = "";
  let names = new Set<string>();
  for (const file of context.store.auditPackages.listEvidence(subject)) {
    const name = evidenceFileName(file.digest, file.filename);
    // Uploaded names of one content that sanitize to the same name are one member.
    if (file.digest !== digest) [digest, names] = [file.digest, new Set()];
    if (names.has(name)) continue;
    names.add(name);
    const { size, reported_at: mtime } = file;
    yield { name, digest, size, state: files.state(digest, size), mtime };
  }
}
