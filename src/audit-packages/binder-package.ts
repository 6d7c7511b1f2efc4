/**
 * A package with an audit binder: its document, the attestations in its scope with their evidence, and the rules that
 * were in force, in the layout of every package. Reads the database before it returns.
 */
import { composeBinder } from "../contract/binder/compose.ts";
import { formatAuditBinderName } from "../domain/names.ts";
import { indentJson, JsonList } from "../json/text.ts";
import type { BinderPackageSubject } from "../store/environments/audit-packages.ts";
import { gatherEvidence } from "./gather-evidence.ts";
import { gatherReferences } from "./gather-references.ts";
import { readAttestation } from "./gather.ts";
import { MAX_OMITTED, addList, createReferences } from "./gathering.ts";
import type { PackageSource } from "./gathering.ts";
import { createMembers, stringifyWithList } from "./members.ts";
import type { Members } from "./members.ts";
import { sealPackage } from "./package.ts";
import type { ByteGenerator } from "./package.ts";
import { renderBinderReadme } from "./readme.ts";
import { createSampler } from "./report.ts";
import type { BinderAbout, OmittedEvidence } from "./report.ts";

type BinderSource = PackageSource<BinderPackageSubject>;

/** @param pathFor returns paths of files that do not exist yet, for the spools of the package */
export function generateBinderPackage(source: BinderSource, pathFor: (name: string) => string): ByteGenerator {
  const members = createMembers(pathFor);
  try {
    const gathered = gatherBinder(source, members);
    const { about, report, summary, attestations } = gathered;
    const sealed = { about, asOf: about.to, omitted: report.omitted, directory: formatAuditBinderName(about) };
    return sealPackage(members, sealed, {
      source,
      addFront: () => members.text("README.txt", [renderBinderReadme({ about, summary, attestations, ...report })]),
    });
  } catch (error) {
    members.close();
    throw error;
  }
}

function gatherBinder(source: BinderSource, members: Members) {
  const { context, subject } = source;
  const { key, now, seesPeople } = subject;
  const scope = { subject: key.subject, from: key.from, to: key.to, now, seesPeople };
  const { document, policyVersions } = composeBinder(context, scope, null);
  const { kind: of, name } = document.subject;
  const period = { from: new Date(key.from * 1000).toISOString(), to: new Date(key.to * 1000).toISOString() };
  const about: BinderAbout = {
    kind: "binder",
    organization: context.organization.name,
    of,
    name,
    from: key.from,
    to: key.to,
    url: context.urls.auditBinderPage(context.organization.name, { [of]: name, ...period }),
  };
  members.text("binder.json", stringifyBinder(document));
  const references = createReferences();
  for (const id of policyVersions) references.policyVersions.add(id);
  if (key.subject.kind === "control") references.controls.add(key.subject.identifier);
  let attestations = 0;
  addList({ members }, "attestations.json", {
    rows: context.store.auditPackages.listAttestations(subject),
    toRecord(row) {
      attestations += 1;
      return readAttestation({ ...source, references }, row).record;
    },
  });
  gatherReferences({ context, members, references });
  const report = {
    evidence: { files: 0, bytes: 0 },
    omitted: createSampler<OmittedEvidence>(MAX_OMITTED, "first"),
  };
  gatherEvidence({ ...source, members, report });
  return { about, report, summary: document.summary, attestations };
}

/** The pieces of the document as indented JSON; the entries of its lists are made one by one. */
function* stringifyBinder(document: object): Generator<string> {
  let separator = "{\n";
  for (const [name, value] of Object.entries(document)) {
    yield `${separator}  ${JSON.stringify(name)}: `;
    separator = ",\n";
    if (!isPart(value)) yield indent(indentJson(value));
    else {
      const { items, ...head } = value;
      for (const piece of stringifyWithList(head, "items", items.items)) yield indent(piece.replace(/^\n\}\n$/, "\n}"));
    }
  }
  yield "\n}\n";
}

/** Indents all lines but the first. */
const indent = (json: string): string => json.replaceAll("\n", "\n  ");

const isPart = (value: unknown): value is { items: JsonList } =>
  typeof value === "object" && value !== null && "items" in value && value.items instanceof JsonList;
