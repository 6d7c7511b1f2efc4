/**
 * The shapes of environment reports and their normalization to artifacts: one entry for each type of environment
 * (semantics 6.1, wire-contract 28). Separate from the operations, because the recording thread parses large reports.
 */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import { FINGERPRINT } from "../domain/names.ts";
import {
  normalizeAzureApps,
  normalizeCloudRun,
  normalizeEcs,
  normalizeK8s,
  normalizePlain,
} from "../domain/snapshot/normalize.ts";
import type { Item, ReportedArtifact } from "../domain/snapshot/normalize.ts";
import { badRequest, tooLarge } from "../errors.ts";
import { REPORT_BOUNDS, createBodyShape, readJson } from "../http/body/read-json.ts";
import { Closed, Matching, Maybe, OneOf, Open, WithinBytes, named } from "../http/schema.ts";
import type { PhysicalType } from "../store/environments/environments.ts";
import { MAX_LIST_ITEMS, MAX_DETAIL_BYTES, MAX_PATH_CHARS } from "./shapes.ts";

const Name = (description: string) => Type.String({ maxLength: MAX_PATH_CHARS, description });

/** Ten times the largest cluster that reports are benchmarked with; `--json-limit` bounds the body besides. */
const MAX_ITEMS = 1_000_000;
/** Artifacts of one item: the containers of a pod are a handful. */
const MAX_ITEM_DIGESTS = 100_000;

/** The fields of items of all types. */
const ITEM = {
  digests: Type.Unsafe<Record<string, string>>({
    type: "object",
    description: "SHA-256 fingerprints by artifact name; empty if the fingerprint could not be determined",
    additionalProperties: Type.Union([Matching(FINGERPRINT), Type.Literal("")]),
    maxProperties: MAX_ITEM_DIGESTS,
    propertyNames: { maxLength: MAX_PATH_CHARS },
  }),
  // Clocks can be wrong: a start in the future or before 1970 is no reason to reject the report.
  creationTimestamp: Type.Integer({
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    description: "Start, epoch seconds",
  }),
};
const PlainItem = Closed(ITEM);

export const K8SOwner = named(
  "K8SOwner",
  WithinBytes(
    MAX_DETAIL_BYTES,
    Type.Object({
      apiVersion: Name("Version of the owner's kind, such as `apps/v1`"),
      kind: Name("Kind of the owner, such as `ReplicaSet`"),
      name: Name("Name of the owner"),
      uid: Name("Id of the owner in the cluster"),
      controller: Maybe(Type.Boolean()),
      blockOwnerDeletion: Maybe(Type.Boolean()),
    }),
  ),
);

type ReportShape<I extends TSchema> = {
  type: PhysicalType;
  /** Prefix of the component names of the report's shapes. */
  component: string;
  item: I;
  normalize(items: readonly Static<I>[]): ReportedArtifact[];
};

type Report = {
  schema: TSchema;
  /** @param body a value of the schema. @throws AppError too_large */
  normalizeBody(body: unknown): ReportedArtifact[];
};

function report<I extends TSchema>({ type, component, item, normalize }: ReportShape<I>): Report {
  return {
    schema: named(
      `${component}Report`,
      Open({
        type: Type.Optional(Type.Literal(type, { default: type })),
        artifacts: Type.Array(named(`${component}Artifact`, item), {
          maxItems: MAX_ITEMS,
          description: "Everything that runs; empty if nothing runs",
        }),
      }),
    ),
    normalizeBody(body) {
      const items = (body as { artifacts: Static<I>[] }).artifacts;
      checkRepetition(items as Item[]);
      return normalize(items);
    },
  };
}

/** Bytes of all items with many digests, without their digests, counted once for each digest. */
const MAX_REPEATED_BYTES = 64 << 20;
/** Items with up to this many digests (nearly all) are not measured: they multiply a report by a small factor only. */
const MAX_UNMEASURED_DIGESTS = 8;

/**
 * Bounds what a report becomes: the details of an item are stored with each of its artifacts, so a body within its
 * limit could become gigabytes.
 * @throws AppError 413
 */
function checkRepetition(items: readonly Item[]): void {
  let repeated = 0;
  items.forEach(({ digests, ...rest }, index) => {
    const count = Object.keys(digests).length;
    if (count > MAX_UNMEASURED_DIGESTS) repeated += count * JSON.stringify(rest).length;
    if (repeated > MAX_REPEATED_BYTES)
      throw tooLarge(
        `The report, counting the details of an item once for each of its digests (items 0 to ${index}),`,
        MAX_REPEATED_BYTES,
      );
  });
}

export const REPORTS: Readonly<Record<PhysicalType, Report>> = {
  K8S: report({
    type: "K8S",
    component: "K8S",
    item: Closed({
      ...ITEM,
      podName: Name("Name of the pod"),
      namespace: Name("Namespace of the pod"),
      owners: Maybe(
        Type.Array(K8SOwner, {
          maxItems: MAX_LIST_ITEMS,
          description: "Owners of the pod, with all their fields",
        }),
      ),
    }),
    normalize: normalizeK8s,
  }),
  ECS: report({
    type: "ECS",
    component: "ECS",
    item: Closed({
      ...ITEM,
      taskArn: Name("ARN of the task"),
      cluster_name: Maybe(Name("Cluster of the task")),
      service_name: Maybe(Name("Service of the task")),
    }),
    normalize: normalizeEcs,
  }),
  S3: report({
    type: "S3",
    component: "S3",
    item: PlainItem,
    normalize: normalizePlain,
  }),
  lambda: report({
    type: "lambda",
    component: "Lambda",
    item: PlainItem,
    normalize: normalizePlain,
  }),
  server: report({
    type: "server",
    component: "Server",
    item: PlainItem,
    normalize: normalizePlain,
  }),
  docker: report({
    type: "docker",
    component: "Docker",
    item: PlainItem,
    normalize: normalizePlain,
  }),
  "azure-apps": report({
    type: "azure-apps",
    component: "AzureApps",
    item: Closed({
      ...ITEM,
      digests_source: OneOf(["acr", "logs", "kosli-cli"], { description: "Source of the digests" }),
      app_name: Name("Name of the app"),
      app_kind: Name("Kind of the app, such as `app,linux,container`"),
    }),
    normalize: normalizeAzureApps,
  }),
  "cloud-run": report({
    type: "cloud-run",
    component: "CloudRun",
    item: Closed({
      ...ITEM,
      kind: OneOf(["service", "job"]),
      serviceName: Maybe(Name("Name of the service")),
      revisionName: Maybe(Name("Running revision of the service")),
      jobName: Maybe(Name("Name of the job")),
    }),
    normalize: normalizeCloudRun,
  }),
};

/** `ignored`: the top-level keys that the shape does not know. */
type ReadReport = { artifacts: ReportedArtifact[]; ignored: readonly string[] };

/** Parses and normalizes the text of a report. @throws AppError as for any JSON body */
export function readReport(type: PhysicalType, bytes: Buffer): ReadReport {
  const { schema, normalizeBody } = REPORTS[type];
  const { value, ignored } = readJson(bytes, createBodyShape(schema, REPORT_BOUNDS));
  if (value === null) throw badRequest("A JSON body is required: the request has none");
  return { artifacts: normalizeBody(value), ignored };
}
