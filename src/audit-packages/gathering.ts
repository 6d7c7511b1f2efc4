/** What the steps of gathering a package share: the source, the members, the report and the references still to add. */
import type { PresenterContext } from "../contract/presenter-context.ts";
import type { PackageSubject, RecordSubject } from "../store/environments/audit-packages.ts";
import type { EvidenceFiles } from "./evidence.ts";
import type { Members } from "./members.ts";
import { createSampler } from "./report.ts";
import type { About, AuditReport, Sample, Sampler } from "./report.ts";

/** Where a package is read from; by default one of records. */
export type PackageSource<Subject extends PackageSubject = RecordSubject> = {
  context: PresenterContext;
  subject: Subject;
  files: EvidenceFiles;
};

export type ReportBuilder = {
  [Field in keyof AuditReport]: AuditReport[Field] extends Sample<infer Item> ? Sampler<Item> : AuditReport[Field];
};

/** What records refer to; added to the package after the records. */
type References = {
  /** Public ids. */
  templates: Set<string>;
  /** Keys. */
  policyVersions: Set<number>;
  /** JSON of [version, name], so that a version of a type is in the set once. */
  customTypes: Set<string>;
  /** Identifiers. */
  controls: Set<string>;
};

export type Gathering = PackageSource & {
  /** null when the report alone is wanted. */
  members: Members | null;
  report: ReportBuilder;
  references: References;
};

/** How many items of each list the report shows. */
const SAMPLE_SIZES = { trails: 50, artifacts: 200, attestations: 500, runs: 200, allowances: 100 };
/** The manifest lists all omitted files. */
export const MAX_OMITTED = 200;

export function startGathering(source: PackageSource, members: Members | null): Gathering {
  return {
    ...source,
    members,
    report: {
      about: describeSubject(source.context, source.subject),
      asOf: 0,
      trails: createSampler(SAMPLE_SIZES.trails, "last"),
      artifacts: createSampler(SAMPLE_SIZES.artifacts, "last"),
      attestations: createSampler(SAMPLE_SIZES.attestations, "last"),
      runs: createSampler(SAMPLE_SIZES.runs, "last"),
      allowances: createSampler(SAMPLE_SIZES.allowances, "last"),
      events: 0,
      deployments: 0,
      evidence: { files: 0, bytes: 0 },
      omitted: createSampler(MAX_OMITTED, "first"),
    },
    references: createReferences(),
  };
}

export const createReferences = (): References => ({
  templates: new Set(),
  policyVersions: new Set(),
  customTypes: new Set(),
  controls: new Set(),
});

/** Counts an event of the package, in epoch seconds, towards the time up to which it covers the records. */
export function noteTime({ report }: Gathering, time: number | null): void {
  report.asOf = Math.max(report.asOf, time ?? 0);
}

/** Adds a list of records as a member; without members it runs `toRecord` for its effect on the report. */
export function addList<Row>(
  { members }: Pick<Gathering, "members">,
  name: string,
  { rows, toRecord }: { rows: Iterable<Row>; toRecord: (row: Row) => unknown },
): void {
  if (members) members.list(name, mapEach(rows, toRecord));
  else for (const row of rows) toRecord(row);
}

export function* mapEach<From, To>(items: Iterable<From>, map: (item: From) => To): Generator<To, void, undefined> {
  for (const item of items) yield map(item);
}

function describeSubject({ store, organization, urls }: PresenterContext, subject: RecordSubject): About {
  if (subject.kind === "trail") {
    const row = store.trails.get(subject.trailId);
    const flow = store.flows.get(row.flow_id).name;
    return {
      kind: "trail",
      organization: organization.name,
      flow,
      trail: row.name,
      trail_id: row.public_id,
      url: urls.trailPage(organization.name, flow, row.name),
    };
  }
  const { flowId, fingerprint } = subject;
  const row = store.artifacts.findLatest(flowId, fingerprint, null);
  if (!row) throw new Error(`artifact ${fingerprint} is gone`);
  return {
    kind: "artifact",
    organization: organization.name,
    flow: row.flow_name,
    fingerprint,
    filename: row.filename,
    url: urls.artifactPage(organization.name, row.flow_name, { fingerprint, id: row.public_id }),
  };
}
