/**
 * What a report says is running, in one form for all types (semantics 6.1): artifacts, each with its instances. An
 * artifact is a name with a fingerprint; items that name the same one are its instances.
 */

/** An owner of a pod, as it was reported. */
export type PodOwner = Readonly<Record<string, unknown>>;
export type Pod = { namespace: string; creationTimestamp: number; owners: readonly PodOwner[] | null };
export type EcsContext = { task_arn: string; cluster_name: string | null; service_name: string | null };

/**
 * Kept as instances_json: `created` holds the start of each instance in epoch seconds, ascending; the rest where the
 * type has it.
 */
export type Instances = {
  created: readonly number[];
  /** K8S: pods by name. */
  pods?: Readonly<Record<string, Pod>>;
  /** ECS: of the task whose ARN comes first. */
  ecs?: EcsContext;
  /** azure-apps and cloud-run: what else the items said. */
  context?: readonly Readonly<Record<string, unknown>>[];
};

/** `fingerprint` is "" where the reporter could not resolve the image. */
export type ReportedArtifact = { name: string; fingerprint: string; instances: Instances };

/** What items of all types have. `digests`: artifact name to fingerprint or ""; `creationTimestamp`: epoch seconds. */
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
 * Reports of the types docker, server, S3 and lambda, which say nothing else of an item. As all functions of this file:
 * see `gather`.
 */
export const normalizePlain = (items: readonly Item[]): ReportedArtifact[] => gather(items, () => ({}));

/** Reports of pods. A pod that occurs in a second namespace too is there called `namespace/podName`. */
export const normalizeK8s = (items: readonly K8sItem[]): ReportedArtifact[] =>
  gather(items, (own) => ({ pods: podsOf(own) }));

/** Reports of tasks. */
export const normalizeEcs = (items: readonly EcsItem[]): ReportedArtifact[] =>
  gather(items, (own) => {
    const {
      taskArn,
      cluster_name = null,
      service_name = null,
    } = own.reduce((first, item) => (byTask(item, first) < 0 ? item : first));
    return { ecs: { task_arn: taskArn, cluster_name, service_name } };
  });

/** Reports of Azure web and function apps. */
export const normalizeAzureApps = (items: readonly AzureAppsItem[]): ReportedArtifact[] =>
  gather(items, (own) => ({
    context: distinct(own.map(({ app_name, app_kind, digests_source }) => ({ app_name, app_kind, digests_source }))),
  }));

/** Reports of Cloud Run revisions and jobs; names that do not apply are left out. */
export const normalizeCloudRun = (items: readonly CloudRunItem[]): ReportedArtifact[] =>
  gather(items, (own) => ({
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
 * Every entry of every item's digests is an instance of an artifact; an item without digests says nothing. Ordered by
 * name and fingerprint, and within an artifact by content, so that the order of a report's items never shows.
 * @param contextOf what is kept beside the times, from the items of one artifact, which are at least one
 */
function gather<T extends Item>(
  items: readonly T[],
  contextOf: (own: readonly T[]) => Omit<Instances, "created">,
): ReportedArtifact[] {
  // Two maps find an artifact without a text made for each look.
  const found = new Map<string, Map<string, T[]>>();
  for (const item of items) {
    for (const name of Object.keys(item.digests)) {
      const fingerprint = item.digests[name] as string;
      const named = found.get(name);
      const own = named?.get(fingerprint);
      if (own) own.push(item);
      else if (named) named.set(fingerprint, [item]);
      else found.set(name, new Map([[fingerprint, [item]]]));
    }
  }
  const sorted = [...found].sort(byKey);
  return sorted.flatMap(([name, versions]) =>
    [...versions].sort(byKey).map(([fingerprint, own]) => ({
      name,
      fingerprint,
      instances: {
        created: own.map(({ creationTimestamp }) => creationTimestamp).sort((a, b) => a - b),
        ...contextOf(own),
      },
    })),
  );
}

/** Of a pod that was reported twice the older item is kept; both are instances. */
function podsOf(own: readonly K8sItem[]): Record<string, Pod> {
  const pods: Record<string, Pod> = {};
  let previous: K8sItem | null = null;
  for (const item of own.length < 2 ? own : [...own].sort(byPod)) {
    const { podName, namespace, creationTimestamp, owners = null } = item;
    const again = previous?.podName === podName && previous.namespace === namespace;
    previous = item;
    if (again) continue;
    let key = podName;
    while (Object.hasOwn(pods, key)) key = `${namespace}/${key}`;
    const pod = { namespace, creationTimestamp, owners };
    // A pod may be called so, and assigning that would make it the parent of the others.
    if (key === "__proto__")
      Object.defineProperty(pods, key, { value: pod, enumerable: true, configurable: true, writable: true });
    else pods[key] = pod;
  }
  return pods;
}

const byPod = (a: K8sItem, b: K8sItem): number =>
  compare(a.podName, b.podName) ||
  compare(a.namespace, b.namespace) ||
  a.creationTimestamp - b.creationTimestamp ||
  compare(textOf(a.owners), textOf(b.owners));

const byTask = (a: EcsItem, b: EcsItem): number =>
  compare(a.taskArn, b.taskArn) ||
  compare(textOf([a.cluster_name, a.service_name]), textOf([b.cluster_name, b.service_name]));

/** One of each, in the order of their texts. */
function distinct<T extends Readonly<Record<string, unknown>>>(entries: readonly T[]): T[] {
  const byText = new Map(entries.map((entry) => [textOf(entry), entry] as const));
  return byText.size < 2 ? [...byText.values()] : [...byText].sort(byKey).map(([, entry]) => entry);
}

const textOf = (value: unknown): string => JSON.stringify(value) ?? "";

/** By code units, which no locale changes. */
const compare = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);
const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => compare(a, b);
