/**
 * Normalizes reports of all environment types into artifacts with instances (semantics 6.1). An artifact is a name with
 * a fingerprint; the items that name it are its instances.
 */

/** An owner of a pod, as reported. */
type PodOwner = Readonly<Record<string, unknown>>;
type Pod = { namespace: string; creationTimestamp: number; owners: readonly PodOwner[] | null };
type EcsContext = { task_arn: string; cluster_name: string | null; service_name: string | null };

/**
 * Stored as instances_json. `created` has the start of each instance in epoch seconds, ascending; the other members
 * depend on the type.
 */
export type Instances = {
  created: readonly number[];
  /** K8S: pods by name. */
  pods?: Readonly<Record<string, Pod>>;
  /** ECS: of the task whose ARN comes first. */
  ecs?: EcsContext;
  /** azure-apps and cloud-run: the other fields of the items. */
  context?: readonly Readonly<Record<string, unknown>>[];
};

/** `fingerprint` is "" if the reporter could not resolve the image. */
export type ReportedArtifact = { name: string; fingerprint: string; instances: Instances };

/** The fields of all types. `digests` maps artifact names to fingerprints or ""; times are epoch seconds. */
export type Item = { digests: Readonly<Record<string, string>>; creationTimestamp: number };
export type K8sItem = Item & { podName: string; namespace: string; owners?: readonly PodOwner[] | null };
export type EcsItem = Item & { taskArn: string; cluster_name?: string | null; service_name?: string | null };
export type AzureAppsItem = Item & { app_name: string; app_kind: string; digests_source: string };
export type CloudRunItem = Item & {
  kind: string;
  serviceName?: string | null;
  revisionName?: string | null;
  jobName?: string | null;
};

/**
 * Reports of the types docker, server, S3 and lambda, whose items have no other fields. For the order of the result of
 * this and the following functions see `groupByArtifact`.
 */
export const normalizePlain = (items: readonly Item[]): ReportedArtifact[] => groupByArtifact(items, () => ({}));

/** Reports of pods. In a second namespace, a pod of the same name gets the key `namespace/podName`. */
export const normalizeK8s = (items: readonly K8sItem[]): ReportedArtifact[] =>
  groupByArtifact(items, (own) => ({ pods: podsOf(own) }));

/** Reports of ECS tasks. */
export const normalizeEcs = (items: readonly EcsItem[]): ReportedArtifact[] =>
  groupByArtifact(items, (own) => {
    const {
      taskArn,
      cluster_name = null,
      service_name = null,
    } = own.reduce((first, item) => (compareTasks(item, first) < 0 ? item : first));
    return { ecs: { task_arn: taskArn, cluster_name, service_name } };
  });

/** Reports of Azure web and function apps. */
export const normalizeAzureApps = (items: readonly AzureAppsItem[]): ReportedArtifact[] =>
  groupByArtifact(items, (own) => ({
    context: distinct(own.map(({ app_name, app_kind, digests_source }) => ({ app_name, app_kind, digests_source }))),
  }));

/** Reports of Cloud Run revisions and jobs; names that do not apply are omitted. */
export const normalizeCloudRun = (items: readonly CloudRunItem[]): ReportedArtifact[] =>
  groupByArtifact(items, (own) => ({
    context: distinct(
      own.map(({ kind, serviceName, revisionName, jobName }) => ({
        kind,
        ...(serviceName == null ? {} : { serviceName }),
        ...(revisionName == null ? {} : { revisionName }),
        ...(jobName == null ? {} : { jobName }),
      })),
    ),
  }));

/**
 * Groups items by artifact: every digest of every item is an instance of one; items without digests are ignored. The
 * result is ordered by name and fingerprint, and within an artifact by content, so it does not depend on the order of
 * the items.
 * @param contextOf the other members of the instances, from the items of one artifact, at least one
 */
function groupByArtifact<T extends Item>(
  items: readonly T[],
  contextOf: (own: readonly T[]) => Omit<Instances, "created">,
): ReportedArtifact[] {
  // Nested maps save building a key text for each lookup.
  const groups = new Map<string, Map<string, T[]>>();
  for (const item of items) {
    for (const name of Object.keys(item.digests)) {
      const fingerprint = item.digests[name] as string;
      const ofName = groups.get(name);
      const group = ofName?.get(fingerprint);
      if (group) group.push(item);
      else if (ofName) ofName.set(fingerprint, [item]);
      else groups.set(name, new Map([[fingerprint, [item]]]));
    }
  }
  const sorted = [...groups].sort(compareKeys);
  return sorted.flatMap(([name, ofName]) =>
    [...ofName].sort(compareKeys).map(([fingerprint, own]) => ({
      name,
      fingerprint,
      instances: {
        created: own.map(({ creationTimestamp }) => creationTimestamp).sort((a, b) => a - b),
        ...contextOf(own),
      },
    })),
  );
}

/** The pods of an artifact. If a pod was reported twice, the older item describes it; both are instances. */
function podsOf(own: readonly K8sItem[]): Record<string, Pod> {
  const pods: Record<string, Pod> = {};
  let previous: K8sItem | null = null;
  for (const item of own.length < 2 ? own : [...own].sort(comparePods)) {
    const { podName, namespace, creationTimestamp, owners = null } = item;
    const isRepeated = previous?.podName === podName && previous.namespace === namespace;
    previous = item;
    if (isRepeated) continue;
    let key = podName;
    while (Object.hasOwn(pods, key)) key = `${namespace}/${key}`;
    const pod = { namespace, creationTimestamp, owners };
    // A legal name of a pod; assigning to it would set the prototype instead.
    if (key === "__proto__")
      Object.defineProperty(pods, key, { value: pod, enumerable: true, configurable: true, writable: true });
    else pods[key] = pod;
  }
  return pods;
}

const comparePods = (a: K8sItem, b: K8sItem): number =>
  compare(a.podName, b.podName) ||
  compare(a.namespace, b.namespace) ||
  a.creationTimestamp - b.creationTimestamp ||
  compare(textOf(a.owners), textOf(b.owners));

const compareTasks = (a: EcsItem, b: EcsItem): number =>
  compare(a.taskArn, b.taskArn) ||
  compare(textOf([a.cluster_name, a.service_name]), textOf([b.cluster_name, b.service_name]));

/** Distinct entries, ordered by their JSON texts. */
function distinct<T extends Readonly<Record<string, unknown>>>(entries: readonly T[]): T[] {
  const byText = new Map(entries.map((entry) => [textOf(entry), entry] as const));
  return byText.size < 2 ? [...byText.values()] : [...byText].sort(compareKeys).map(([, entry]) => entry);
}

const textOf = (value: unknown): string => JSON.stringify(value) ?? "";

/** Compares by code units, independent of the locale. */
const compare = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);
const compareKeys = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => compare(a, b);
