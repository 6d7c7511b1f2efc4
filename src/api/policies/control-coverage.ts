/** Coverage of a control: the environments that enforce it and those that do not (semantics 7.3). */
import { Type } from "typebox";
import { percentOf } from "../../domain/percent.ts";
import { isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, OneOf, named } from "../../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { CONTROL_OPERATION, NO_CONTROL, CONTROL_PAGES } from "./controls.ts";
import { largeRead } from "../context.ts";
import { PageCounts, pageCounts } from "../paging.ts";
import { ControlPath } from "../paths.ts";

const ControlCoverageResponse = named(
  "ControlCoverageResponse",
  Closed({
    summary: named(
      "ControlCoverageSummary",
      Closed({
        total: Type.Integer({ description: "All active environments except logical ones" }),
        covered: Type.Integer(),
        coverage_percent: Type.Number({ description: "With one decimal place; 0 without environments" }),
      }),
    ),
    ...PageCounts,
    environments: Type.Array(
      named(
        "ControlCoverageEnvironment",
        Closed({
          name: Type.String(),
          type: OneOf(ENVIRONMENT_TYPES),
          covered: Type.Boolean(),
          policies: Type.Array(Type.String(), {
            description: "Names of the attached policies that require the control",
          }),
        }),
      ),
    ),
  }),
);

const isTextList = isListOf(isText);

export const getControlCoverage = largeRead({
  ...CONTROL_OPERATION,
  id: "get_control_coverage",
  method: "GET",
  path: "/controls/{org}/{identifier}/coverage",
  summary: "List the environments that enforce a control",
  description:
    "An environment is covered if the latest version of an attached policy has a rule for the control, whether or " +
    "not the rule is satisfied. Filters apply to the list; the summary covers all environments.",
  permission: "control:read",
  audit: null,
  params: ControlPath,
  query: Closed({
    ...CONTROL_PAGES.query,
    search: Type.Optional(Type.String({ description: "Part of the environment's name; case-insensitive" })),
    covered: Type.Optional(Type.Boolean({ description: "true: only covered environments; false: only the others" })),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page, and the summary", schema: ControlCoverageResponse },
    404: NO_CONTROL,
  },
  example: { params: { org: "acme", identifier: "SDLC-7" }, query: { covered: "false" } },
  handle({ store, organization }, { params, query }) {
    const { id } = store.controls.require(organization, params.identifier);
    const filter = { search: query.search ?? "", covered: query.covered ?? null };
    const { page, perPage, ...slice } = CONTROL_PAGES.window(query);
    const { total, covered } = store.controlCoverage.summarize({ organizationId: organization.id, controlId: id });
    const environments = store.controlCoverage
      .list({ organizationId: organization.id, controlId: id }, filter, slice)
      .map((row) => ({
        name: row.name,
        type: row.type,
        covered: row.covered === 1,
        policies: readStoredJson(row.policies_json, isTextList),
      }));
    return {
      status: 200,
      body: {
        summary: { total, covered, coverage_percent: percentOf(covered, total) },
        ...pageCounts(
          store.controlCoverage.count({ organizationId: organization.id, controlId: id }, filter),
          page,
          perPage,
        ),
        environments,
      },
    };
  },
});
