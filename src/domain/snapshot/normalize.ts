/**
 * What a report says is running, in one form for all types (semantics 6.1): artifacts, each with its instances. An artifact
 * is a name with a fingerprint; items that name the same one are its instances.
 */

/** An owner of a pod, as it was reported. */
export type PodOwner = Readonly<Record<string, unknown>>;
export type Pod = { namespace: string; creationTimestamp: number; owners: readonly PodOwner[] | null };
export type EcsContext = { task_arn: string; cluster_name: string | null; service_name: string | null };

/** Kept as instances_json: `created` holds the start of each instance in epoch seconds, ascending; the rest where the type has it. */
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
