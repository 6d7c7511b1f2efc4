/** Path parameters that several operations share. */
import { Type } from "typebox";
import { FINGERPRINT, TRAIL_NAME } from "../domain/names.ts";
import { Closed, Matching } from "../http/schema.ts";
import { Name } from "../contract/shapes.ts";

/** The query of an operation that takes none. */
export const NoQuery = Closed({});

/** The path of an organization. */
export const OrgPath = Closed({ org: Type.String({ description: "Name of the organization" }) });

/** The path of a trail that a report may begin. */
export const TrailPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  flow_name: Type.String({ description: "Name of the flow" }),
  trail_name: Name(TRAIL_NAME, { description: "Name of the trail; a new one is begun" }),
});

/** `/controls/{org}/tags` is a path of its own, so a control with this identifier cannot be read (semantics 13.81). */
export const RESERVED_CONTROL_IDENTIFIER = "tags";

/** The path of a control. */
export const ControlPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  identifier: Type.String({
    description: "Identifier of the control, archived or not",
    "x-reserved": [RESERVED_CONTROL_IDENTIFIER],
  }),
});

/** The path of an artifact, reported to a flow or not. */
export const FingerprintPath = Closed({ org: Type.String(), fingerprint: Matching(FINGERPRINT) });

/** The path of a flow. */
export const FlowPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  flow_name: Type.String({ description: "Name of the flow; a former name works until another flow takes it" }),
});

/** The path of a trail that is read. */
export const ReadTrailPath = Closed({
  ...FlowPath.properties,
  trail_name: Type.String({ description: "Name of the trail" }),
});

/** The path of a repository by name. */
export const RepoNamePath = Closed({
  org: OrgPath.properties.org,
  repo_name: Type.String({ description: "Name of the repository, including slashes, escaped or not" }),
});

/** The path of an environment. */
export const EnvironmentPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  env_name: Type.String({
    description: "Name of the environment; a former name works until another environment takes it",
  }),
});
