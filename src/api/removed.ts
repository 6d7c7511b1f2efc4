/**
 * Removed operations that older clients may still call. They respond with 410 after authentication and ignore the rest
 * of the request (operations 28).
 */
import { Type } from "typebox";
import { gone } from "../errors.ts";
import { Closed, Message } from "../http/schema.ts";
import { NO_BODY } from "../http/operation.ts";
import type { Method } from "../http/operation.ts";
import type { AssayOperation } from "./context.ts";
import { NoQuery } from "./paths.ts";

const EXAMPLES: Record<string, string> = {
  org: "acme",
  flow_name: "backend",
  env_name: "production",
  approval_number: "1",
  fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd",
};

const removedOperation = ({
  path,
  ...declaration
}: {
  id: string;
  method: Method;
  path: string;
  tag: string;
  summary: string;
}): AssayOperation => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");
  return {
    ...declaration,
    path,
    description: "Removed from the API.",
    status: "removed",
    permission: "authenticated",
    // Nothing is ever written.
    audit: null,
    params: Closed(Object.fromEntries(names.map((name) => [name, Type.String()]))),
    query: NoQuery,
    body: NO_BODY,
    responses: { 410: { description: "Removed", schema: Message } },
    example: { params: Object.fromEntries(names.map((name) => [name, EXAMPLES[name] ?? name])) },
    handle: () => {
      throw gone();
    },
  };
};

export const listApprovals = removedOperation({
  id: "list_approvals",
  method: "GET",
  path: "/approvals/{org}/{flow_name}",
  tag: "Approval",
  summary: "List approvals",
});
export const postApproval = removedOperation({
  id: "post_approval",
  method: "POST",
  path: "/approvals/{org}/{flow_name}",
  tag: "Approval",
  summary: "Request or report an approval",
});
export const getCommitOfRunningArtifact = removedOperation({
  id: "get_commit_of_running_artifact",
  method: "GET",
  path: "/approvals/{org}/{flow_name}/artifact-commit/{env_name}",
  tag: "Approval",
  summary: "Read the commit of a running artifact",
});
export const getApproval = removedOperation({
  id: "get_approval",
  method: "GET",
  path: "/approvals/{org}/{flow_name}/{approval_number}",
  tag: "Approval",
  summary: "Read an approval",
});
export const listArtifactApprovals = removedOperation({
  id: "list_artifact_approvals",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/{fingerprint}/approvals",
  tag: "Artifacts",
  summary: "List the approvals of an artifact",
});
