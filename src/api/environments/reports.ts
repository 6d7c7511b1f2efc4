/**
 * Reports of what runs in an environment, from one factory for all types. A type defines the shape of its items and how
 * they become artifacts (contract/report-shapes.ts); record-report.ts does the rest.
 */
import { REPORT_BOUNDS, json } from "../../http/operation.ts";
import { Message, Ok } from "../../http/schema.ts";
import type { PhysicalType } from "../../store/environments/environments.ts";
import { operation } from "../context.ts";
import { recordReport } from "./record-report.ts";
import { REPORTS } from "../../contract/report-shapes.ts";
import { EnvironmentPath, NoQuery } from "../paths.ts";

type ReportType = {
  id: string;
  type: PhysicalType;
  summary: string;
  /** An item of the report. */
  example: unknown;
};

/** The operation that accepts reports of one type. */
function report({ id, type, summary, example }: ReportType) {
  const { schema } = REPORTS[type];
  return operation({
    id,
    method: "PUT",
    path: `/environments/{org}/{env_name}/report/${type}`,
    tag: "Environments",
    summary,
    description:
      "The report lists everything that runs now; an artifact that is not in it has stopped. A report that differs " +
      "from the latest snapshot makes a new one; instance counts and times alone are not a difference.",
    permission: "environment:report",
    audit: "environment.reported",
    params: EnvironmentPath,
    query: NoQuery,
    body: { ...json(schema, REPORT_BOUNDS), isRaw: true },
    responses: {
      200: { description: "Nothing changed", schema: Ok },
      201: { description: "Recorded as a new snapshot", schema: Ok },
      404: { description: "No such environment", schema: Message },
      409: { description: "The environment was archived or renamed meanwhile: retry", schema: Message },
    },
    example: {
      params: { org: "acme", env_name: type === "K8S" ? "production" : `production-${type}` },
      body: { artifacts: [example] },
    },
    prepare: (context, { params, body, rawBody }, confirm) =>
      recordReport(context, confirm, {
        name: params.env_name,
        type,
        // Parsed already only when it came from a page of this server.
        bytes: rawBody ?? Buffer.from(JSON.stringify(body)),
      }),
    storesInPrepare: true,
    handle: (_context, _input, { index }) => ({ status: index === null ? 200 : 201, body: "OK", unaudited: true }),
  });
}

const STARTED = 1_700_000_000;
const DIGEST = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";

export const reportK8s = report({
  id: "k8s_report",
  type: "K8S",
  summary: "Report the pods of a Kubernetes cluster",
  example: {
    podName: "web-5d8f7",
    namespace: "shop",
    digests: { "registry.example.com/web:1.4": DIGEST },
    creationTimestamp: STARTED,
    owners: null,
  },
});

export const reportEcs = report({
  id: "ecs_report",
  type: "ECS",
  summary: "Report the tasks of an AWS ECS cluster",
  example: {
    taskArn: "arn:aws:ecs:eu-north-1:1:task/shop/7",
    cluster_name: "shop",
    service_name: "web",
    digests: { web: DIGEST },
    creationTimestamp: STARTED,
  },
});

export const reportS3 = report({
  id: "s3_report",
  type: "S3",
  summary: "Report the content of an S3 bucket",
  example: { digests: { "shop-assets": DIGEST }, creationTimestamp: STARTED },
});

export const reportLambda = report({
  id: "lambda_report",
  type: "lambda",
  summary: "Report AWS Lambda functions",
  example: { digests: { "resize-images": DIGEST }, creationTimestamp: STARTED },
});

export const reportServer = report({
  id: "server_report",
  type: "server",
  summary: "Report the files and directories of a server",
  example: { digests: { "/opt/shop/web.jar": DIGEST }, creationTimestamp: STARTED },
});

export const reportDocker = report({
  id: "docker_report",
  type: "docker",
  summary: "Report the containers of a Docker host",
  example: { digests: { "registry.example.com/web:1.4": DIGEST }, creationTimestamp: STARTED },
});

export const reportAzureApps = report({
  id: "azure_apps_report",
  type: "azure-apps",
  summary: "Report Azure web and function apps",
  example: {
    app_name: "shop-web",
    app_kind: "app,linux,container",
    digests_source: "acr",
    digests: { "shop-web": DIGEST },
    creationTimestamp: 0,
  },
});

export const reportCloudRun = report({
  id: "cloud_run_report",
  type: "cloud-run",
  summary: "Report Google Cloud Run revisions and jobs",
  example: {
    kind: "service",
    serviceName: "web",
    revisionName: "web-00004",
    digests: { web: DIGEST },
    creationTimestamp: STARTED,
  },
});
