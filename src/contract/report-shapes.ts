/**
 * The shapes of reports and how they become artifacts: one entry for each type of environment (semantics 6.1,
 * wire-contract 28). Apart from the operations, because the recording thread reads large reports with it.
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
import { invalid, tooLarge } from "../errors.ts";
import { parseJson } from "../http/body/read-json.ts";
import { Closed, Matching, Maybe, OneOf, WithinBytes, named } from "../http/schema.ts";
import { validate } from "../http/validate.ts";
import type { PhysicalType } from "../store/environments/environments.ts";
import { LIST_LENGTH, MAX_DETAIL_BYTES, PATH_LENGTH } from "./shapes.ts";

const Name = (description: string) => Type.String({ maxLength: PATH_LENGTH, description });

/**
 * Ten times the largest cluster that reports here are measured with; the body has a bound of its own (`--json-limit`).
 */
const MAX_ITEMS = 1_000_000;
/** Artifacts of one item: the containers of a pod are a handful. */
const MAX_DIGESTS = 100_000;

/** What items of all types have. */
const ITEM = {
  digests: Type.Unsafe<Record<string, string>>({
    type: "object",
    description: "Name of each artifact to its SHA-256 fingerprint, empty where that could not be found out",
    additionalProperties: Type.Union([Matching(FINGERPRINT), Type.Literal("")]),
    maxProperties: MAX_DIGESTS,
    propertyNames: { maxLength: PATH_LENGTH },
  }),
  // Clocks are odd: a start in the future or before 1970 is no reason to lose the report.
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
      uid: Name("Id that the cluster gave the owner"),
      controller: Maybe(Type.Boolean()),
      blockOwnerDeletion: Maybe(Type.Boolean()),
    }),
  ),
);

type ReportShape<I extends TSchema> = {
  type: PhysicalType;
  /** Begins the names of the report's shapes. */
  component: string;
  item: I;
  normalize(items: readonly Static<I>[]): ReportedArtifact[];
};

export type Report = {
  schema: TSchema;
  /** @param body a value of the schema. @throws AppError too_large. */
  artifactsOf(body: unknown): ReportedArtifact[];
};

function report<I extends TSchema>({ type, component, item, normalize }: ReportShape<I>): Report {
  return {
    schema: named(
      `${component}Report`,
      Closed({
        type: Type.Optional(Type.Literal(type)),
        artifacts: Type.Array(named(`${component}Artifact`, item), {
          maxItems: MAX_ITEMS,
          description: "Empty: nothing runs",
        }),
      }),
    ),
    artifactsOf(body) {
      const items = (body as { artifacts: Static<I>[] }).artifacts;
      refuseRepetition(items as Item[]);
      return normalize(items);
    },
  };
}

/** The most bytes that items with many digests may say beside them, counted once for each digest. */
const MOST_REPEATED = 64 << 20;
/**
 * Items with fewer digests, which are nearly all, are not measured: they cannot make more of a report than a few times
 * its size.
 */
const FEW_DIGESTS = 8;

/**
 * What an item says is kept with each of its artifacts, so that a body within its limit could become gigabytes. @throws
 * AppError 413.
 */
function refuseRepetition(items: readonly Item[]): void {
  let repeated = 0;
  items.forEach(({ digests, ...rest }, place) => {
    const count = Object.keys(digests).length;
    if (count > FEW_DIGESTS) repeated += count * JSON.stringify(rest).length;
    if (repeated > MOST_REPEATED)
      throw tooLarge(
        `The report, counting what an item says once for each of its digests (items 0 to ${place}),`,
        MOST_REPEATED,
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
          maxItems: LIST_LENGTH,
          description: "What the pod belongs to, with everything said of it",
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
      digests_source: OneOf(["acr", "logs", "kosli-cli"], { description: "Where the reporter found the digests" }),
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
      serviceName: Maybe(Name("Of a service: its name")),
      revisionName: Maybe(Name("Of a service: the revision that runs")),
      jobName: Maybe(Name("Of a job: its name")),
    }),
    normalize: normalizeCloudRun,
  }),
};

/** Reads the text of a report. @throws AppError as for any body that is read by the kit. */
export function readReport(type: PhysicalType, bytes: Buffer): ReportedArtifact[] {
  const { schema, artifactsOf } = REPORTS[type];
  const value = parseJson(bytes, "body");
  const problems = validate(schema, value, { mode: "plain", root: "body" });
  if (problems) throw invalid(problems);
  return artifactsOf(value);
}
