/** The path parameters that several operations share. */
import { Type } from "typebox";
import { TRAIL_NAME } from "../domain/names.ts";
import { Closed } from "../http/schema.ts";
import { Name } from "../contract/shapes.ts";

/** The query of an operation that takes none. */
export const NoQuery = Closed({});

/** Path of an organization alone. */
export const OrgPath = Closed({ org: Type.String({ description: "Name of the organization" }) });

/** Path of a trail that a report may begin. */
export const TrailPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  flow_name: Type.String({ description: "Name of the flow" }),
  trail_name: Name(TRAIL_NAME, { description: "Name of the trail; one that does not exist yet is begun" }),
});

/** Stands beside `/controls/{org}/{identifier}`, where a control of that name could never be read (decision 81). */
export const RESERVED = "tags";

/** Path of a control. */
export const ControlPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  identifier: Type.String({ description: "Identifier of the control, archived or not", "x-reserved": [RESERVED] }),
});

/** Path of a flow. */
export const FlowPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  flow_name: Type.String({ description: "Name of the flow; an earlier name works until another flow takes it" }),
});

/** Path of a repository by its name. */
export const RepoNamePath = Closed({
  org: OrgPath.properties.org,
  repo_name: Type.String({ description: "Name of the repository, slashes included, escaped or not" }),
});

/** Path of an environment. */
export const EnvironmentPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  env_name: Type.String({
    description: "Name of the environment; an earlier name works until another environment takes it",
  }),
});
