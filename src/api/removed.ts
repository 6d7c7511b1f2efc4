/**
 * Operations that older clients may still call. They answer 410 after authentication, whatever else was sent
 * (operations, Removed).
 */
import { Type } from "typebox";
import { gone } from "../errors.ts";
import { Closed, Message } from "../http/schema.ts";
import { NO_BODY } from "../http/operation.ts";
import type { Method } from "../http/operation.ts";
import { operation } from "./context.ts";
import { NoQuery } from "./paths.ts";

const EXAMPLES: Record<string, string> = {
  org: "acme",
  flow_name: "backend",
  env_name: "production",
  approval_number: "1",
  fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd",
};

const removed = (id: string, method: Method, path: string, tag: string, summary: string) => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
  return operation({
    id,
    method,
    path,
    tag,
    summary,
    description: "Removed from the API.",
    status: "removed",
    permission: "authenticated",
    // Nothing ever changes here.
    audit: null,
    params: Closed(Object.fromEntries(names.map((name) => [name, Type.String()]))),
    query: NoQuery,
    body: NO_BODY,
    responses: { 410: { description: "Removed", schema: Message } },
    example: { params: Object.fromEntries(names.map((name) => [name, EXAMPLES[name] ?? name])) },
    handle: () => {
      throw gone();
    },
  });
};

export const listApprovals = removed(
  "list_approvals",
  "GET",
  "/approvals/{org}/{flow_name}",
  "Approval",
  "List approvals",
);
export const postApproval = removed(
  "post_approval",
  "POST",
  "/approvals/{org}/{flow_name}",
  "Approval",
  "Request or report an approval",
);
export const getCommitOfRunningArtifact = removed(
  "get_commit_of_running_artifact",
  "GET",
  "/approvals/{org}/{flow_name}/artifact-commit/{env_name}",
  "Approval",
  "Read the commit of a running artifact",
);
export const getApproval = removed(
  "get_approval",
  "GET",
  "/approvals/{org}/{flow_name}/{approval_number}",
  "Approval",
  "Read an approval",
);
export const listArtifactApprovals = removed(
  "list_artifact_approvals",
  "GET",
  "/artifacts/{org}/{flow_name}/{fingerprint}/approvals",
  "Artifacts",
  "List the approvals of an artifact",
);
