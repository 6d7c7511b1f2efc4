/**
 * Reports of what runs in an environment: one factory for all types. A type is the shape of its items and how they become
 * artifacts; everything after that is in recording.ts.
 */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import { FINGERPRINT } from "../domain/names.ts";
import { normalizeAzureApps, normalizeCloudRun, normalizeEcs, normalizeK8s, normalizePlain } from "../domain/snapshot/normalize.ts";
import type { Item, ReportedArtifact } from "../domain/snapshot/normalize.ts";
import { tooLarge } from "../errors.ts";
import { json } from "../http/operation.ts";
import { Closed, Matching, Maybe, Message, Ok, OneOf, named } from "../http/schema.ts";
import type { PhysicalType } from "../store/environments.ts";
import { EnvironmentPath } from "./environments.ts";
import { operation } from "./kit.ts";
import { NoQuery } from "./organizations.ts";
import { prepareReport, recordReport } from "./recording.ts";
import { LIST_LENGTH, PATH_LENGTH } from "./shapes.ts";

const Name = (description: string) => Type.String({ maxLength: PATH_LENGTH, description });

/** What items of all types have. Lists have no bound of their own: a large report is as sound as a small one, and bodies have one. */
const ITEM = {
  digests: Type.Unsafe<Record<string, string>>({
    type: "object",
    description: "Name of each artifact to its SHA-256 fingerprint, empty where that could not be found out",
    additionalProperties: Type.Union([Matching(FINGERPRINT), Type.Literal("")]),
    propertyNames: { maxLength: PATH_LENGTH },
  }),
  // Clocks are odd: a start in the future or before 1970 is no reason to lose the report.
  creationTimestamp: Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, description: "Start, epoch seconds" }),
};
const PlainItem = Closed(ITEM);

export const K8SOwner = named(
  "K8SOwner",
  Type.Object({
    apiVersion: Name("Version of the owner's kind, such as `apps/v1`"),
    kind: Name("Kind of the owner, such as `ReplicaSet`"),
    name: Name("Name of the owner"),
    uid: Name("Id that the cluster gave the owner"),
    controller: Maybe(Type.Boolean()),
    blockOwnerDeletion: Maybe(Type.Boolean()),
  }),
);

type ReportType<I extends TSchema> = {
  id: string;
  type: PhysicalType;
  /** Begins the names of the report's shapes. */
  component: string;
  summary: string;
  item: I;
  normalize(items: readonly Static<I>[]): ReportedArtifact[];
  example: Static<I>;
};

/** The operation that takes reports of a type. */
function report<I extends TSchema>({ id, type, component, summary, item, normalize, example }: ReportType<I>) {
  return operation({
    id,
    method: "PUT",
    path: `/environments/{org}/{env_name}/report/${type}`,
    tag: "Environments",
    summary,
    description:
      "The whole of what runs there now: what is not in the report has stopped. A report that differs from the latest snapshot makes a new one; other numbers of instances and other times are no difference.",
    permission: "environment:report",
    audit: "environment.reported",
    params: EnvironmentPath,
    query: NoQuery,
    body: json(
      named(
        `${component}Report`,
        Closed({ type: Type.Optional(Type.Literal(type)), artifacts: Type.Array(named(`${component}Artifact`, item), { description: "Empty: nothing runs" }) }),
      ),
    ),
    responses: {
      200: { description: "Nothing changed", schema: Ok },
      201: { description: "Recorded as a new snapshot", schema: Ok },
      404: { description: "No such environment", schema: Message },
    },
    example: { params: { org: "acme", env_name: type === "K8S" ? "production" : `production-${type}` }, body: { artifacts: [example] } },
    async prepare(context, { params, body }) {
      const items = (body as { artifacts: Static<I>[] }).artifacts;
      refuseRepetition(items as Item[]);
      const artifacts = normalize(items);
      context.note({ artifacts: artifacts.length });
      return prepareReport(context, params.env_name, type, artifacts);
    },
    handle: (context, { params }, prepared) => recordReport(context, params.env_name, type, prepared),
  });
}

/** The most bytes that items with many digests may say beside them, counted once for each digest. */
const MOST_REPEATED = 64 << 20;
/** Items with fewer digests, which are nearly all, are not measured: they cannot make more of a report than a few times its size. */
const FEW_DIGESTS = 8;

/** What an item says is kept with each of its artifacts, so that a body within its limit could become gigabytes. @throws AppError 413. */
function refuseRepetition(items: readonly Item[]): void {
  let repeated = 0;
  items.forEach(({ digests, ...rest }, place) => {
    const count = Object.keys(digests).length;
    if (count > FEW_DIGESTS) repeated += count * JSON.stringify(rest).length;
    if (repeated > MOST_REPEATED) throw tooLarge(`The report, counting what an item says once for each of its digests (items 0 to ${place}),`, MOST_REPEATED);
  });
}

const STARTED = 1_700_000_000;
const DIGEST = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";

export const reportK8s = report({
  id: "k8s_report",
  type: "K8S",
  component: "K8S",
  summary: "Report the pods of a Kubernetes cluster",
  item: Closed({
    ...ITEM,
    podName: Name("Name of the pod"),
    namespace: Name("Namespace of the pod"),
    owners: Maybe(Type.Array(K8SOwner, { maxItems: LIST_LENGTH, description: "What the pod belongs to, with everything said of it" })),
  }),
  normalize: normalizeK8s,
  example: { podName: "web-5d8f7", namespace: "shop", digests: { "registry.example.com/web:1.4": DIGEST }, creationTimestamp: STARTED, owners: null },
});

export const reportEcs = report({
  id: "ecs_report",
  type: "ECS",
  component: "ECS",
  summary: "Report the tasks of AWS ECS",
  item: Closed({
    ...ITEM,
    taskArn: Name("ARN of the task"),
    cluster_name: Maybe(Name("Cluster of the task")),
    service_name: Maybe(Name("Service of the task")),
  }),
  normalize: normalizeEcs,
  example: { taskArn: "arn:aws:ecs:eu-north-1:1:task/shop/7", cluster_name: "shop", service_name: "web", digests: { web: DIGEST }, creationTimestamp: STARTED },
});

export const reportS3 = report({
  id: "s3_report",
  type: "S3",
  component: "S3",
  summary: "Report the content of an S3 bucket",
  item: PlainItem,
  normalize: normalizePlain,
  example: { digests: { "shop-assets": DIGEST }, creationTimestamp: STARTED },
});

export const reportLambda = report({
  id: "lambda_report",
  type: "lambda",
  component: "Lambda",
  summary: "Report AWS Lambda functions",
  item: PlainItem,
  normalize: normalizePlain,
  example: { digests: { "resize-images": DIGEST }, creationTimestamp: STARTED },
});

export const reportServer = report({
  id: "server_report",
  type: "server",
  component: "Server",
  summary: "Report files and directories of a server",
  item: PlainItem,
  normalize: normalizePlain,
  example: { digests: { "/opt/shop/web.jar": DIGEST }, creationTimestamp: STARTED },
});

export const reportDocker = report({
  id: "docker_report",
  type: "docker",
  component: "Docker",
  summary: "Report the containers of a Docker host",
  item: PlainItem,
  normalize: normalizePlain,
  example: { digests: { "registry.example.com/web:1.4": DIGEST }, creationTimestamp: STARTED },
});

export const reportAzureApps = report({
  id: "azure_apps_report",
  type: "azure-apps",
  component: "AzureApps",
  summary: "Report Azure web and function apps",
  item: Closed({
    ...ITEM,
    digests_source: OneOf(["acr", "logs", "kosli-cli"], { description: "Where the reporter found the digests" }),
    app_name: Name("Name of the app"),
    app_kind: Name("Kind of the app, such as `app,linux,container`"),
  }),
  normalize: normalizeAzureApps,
  example: { app_name: "shop-web", app_kind: "app,linux,container", digests_source: "acr", digests: { "shop-web": DIGEST }, creationTimestamp: 0 },
});

export const reportCloudRun = report({
  id: "cloud_run_report",
  type: "cloud-run",
  component: "CloudRun",
  summary: "Report Google Cloud Run revisions and jobs",
  item: Closed({
    ...ITEM,
    kind: OneOf(["service", "job"]),
    serviceName: Maybe(Name("Of a service: its name")),
    revisionName: Maybe(Name("Of a service: the revision that runs")),
    jobName: Maybe(Name("Of a job: its name")),
  }),
  normalize: normalizeCloudRun,
  example: { kind: "service", serviceName: "web", revisionName: "web-00004", digests: { web: DIGEST }, creationTimestamp: STARTED },
});
