/** Custom attestation types, which organizations define themselves (semantics 3.4). */
import { Type } from "typebox";
import type { Static } from "typebox";
import {
  hasMembers,
  isListOf,
  isObject,
  isText,
  readNullableStoredJson,
  readStoredJson,
} from "../../domain/stored-json.ts";
import { AppError, invalid, notFound } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { Closed, ExactlyOne, Message, Nullable, Ok, named } from "../../http/schema.ts";
import type { CustomTypeRow, CustomTypeVersionRow } from "../../store/attestations/custom-attestation-types.ts";
import type { SummaryEntry as SummaryExpression, TypeDefinition } from "../../workers/sandbox/attestation-types.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import type { ReadingContext, LargeReadContext } from "../context.ts";
import { listAllowance, singleAllowance, withText } from "../../contract/large-json.ts";
import { readReported } from "../../contract/reported-json.ts";
import type { Allowance } from "../../contract/large-json.ts";
import { readNestedJson } from "../nested-json.ts";
import {
  CustomAttestationTypePostInput,
  DefaultEvaluator,
  evaluatorRules,
  requireSchemaText,
} from "../../contract/custom-type-input.ts";
import { presentOneByOne } from "../../contract/placeholders.ts";
import { definePaging, ENVELOPE, PageOf } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { configurationForm, versionFields } from "../uploads.ts";

const TypePath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  custom_attestation_type_name: Type.String({ description: "Name of the type" }),
});

const typeForm = configurationForm({
  component: "CustomAttestationTypeForm",
  part: "data_json",
  schema: CustomAttestationTypePostInput,
  file: {
    part: "type_schema",
    description: "JSON Schema of the data, draft-07 or 2020-12 according to `$schema` (default 2020-12), at most 10 MB",
  },
});

/** Without the bounds of a request: openapi-generator checks the patterns of an answer that is one of several. */
const StoredJQEvaluator = named(
  "StoredJQEvaluator",
  Closed({ content_type: Type.Optional(Type.Literal("jq", { default: "jq" })), rules: Type.Array(Type.String()) }),
);
const StoredSummary = Nullable(
  Type.Array(named("StoredSummaryEntry", Closed({ name: Type.String(), expression: Type.String() }))),
);

const CustomAttestationTypeVersion = named(
  "CustomAttestationTypeVersion",
  Closed({
    ...versionFields,
    comment: Type.Optional(Type.String({ description: "Absent if unset" })),
    type_schema: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: "JSON Schema; absent if unset" }),
    ),
    evaluator: Type.Union([StoredJQEvaluator, DefaultEvaluator]),
    summary: StoredSummary,
  }),
);

const CustomAttestationTypeResponse = named(
  "CustomAttestationTypeResponse",
  Closed({
    name: Type.String(),
    description: Type.Optional(Type.String({ description: "Absent if unset" })),
    org: Type.String(),
    archived: Type.Boolean(),
    created_by: Type.Optional(Type.String({ description: "Absent if one version is requested" })),
    created_at: Type.Optional(Type.Number({ description: "Epoch seconds; absent if one version is requested" })),
    last_modified_at: Type.Optional(
      Type.Number({
        description:
          "Epoch seconds at which the latest version was added or the type was archived; absent if one version is " +
          "requested",
      }),
    ),
    versions: Type.Array(CustomAttestationTypeVersion, { description: "Newest first" }),
  }),
);

const isRules = isListOf(isText);
const isSummary = isListOf(hasMembers<SummaryExpression>("name", "expression"));

/** The definition of a stored version. @throws StoredJsonError for a damaged one */
export const readDefinition = ({ schema_json, rules_json, summary_json }: CustomTypeVersionRow): TypeDefinition => ({
  schema: schema_json,
  rules: readStoredJson(rules_json, isRules),
  summary: readNullableStoredJson(summary_json, isSummary),
});

/** @throws StoredJsonError or Error for a damaged record; ResponseFullError, LargeAnswerError */
function presentVersion(
  context: LargeReadContext,
  listed: CustomTypeVersionRow,
  allowance: Allowance,
): Static<typeof CustomAttestationTypeVersion> {
  const row = withText(context, listed, { table: "custom_type_versions", column: "schema_json", allowance });
  const { rules, summary } = readDefinition(listed);
  return {
    version: row.version,
    timestamp: row.timestamp,
    created_by: row.created_by,
    ...(row.comment === null ? {} : { comment: row.comment }),
    ...(row.schema_json === null ? {} : { type_schema: readReported(row.schema_json, isObject) }),
    evaluator: row.content_type === "jq" ? { content_type: "jq", rules: [...rules] } : { content_type: "default" },
    summary: summary && [...summary],
  };
}

/** The placeholder of a damaged version, which stays in the list because clients count versions. */
const presentPlaceholder = (
  { version, timestamp, created_by }: CustomTypeVersionRow,
  reason: string,
): Static<typeof CustomAttestationTypeVersion> => ({
  version,
  timestamp,
  created_by,
  comment: reason,
  evaluator: { content_type: "default" },
  summary: null,
});

const presentVersions = (
  context: LargeReadContext,
  rows: Iterable<CustomTypeVersionRow>,
  allowance: Allowance,
): JsonList<Static<typeof CustomAttestationTypeVersion>> =>
  new JsonList(presentOneByOne(rows, (row) => presentVersion(context, row, allowance), presentPlaceholder));

const presentHead = ({ organization }: LargeReadContext, row: CustomTypeRow) => ({
  name: row.name,
  ...(row.description === null ? {} : { description: row.description }),
  org: organization.name,
  archived: row.archived_at !== null,
});

/** What a reader may ask for less of: pages need neither old versions nor long schemas. */
const SHORTER = {
  max_versions: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, description: "Only so many versions of a type, the newest ones" }),
  ),
  schemas: Type.Boolean({ default: true, description: "`false` leaves out `type_schema`" }),
};
type Shorter = { max_versions?: number; schemas: boolean };

function presentType(
  context: LargeReadContext,
  row: CustomTypeRow,
  { allowance, max_versions, schemas: hasSchemas }: { allowance: Allowance } & Shorter,
) {
  const limit = max_versions ?? null;
  const rows = context.store.customAttestationTypes.listVersions(row.id, { limit, hasSchemas });
  return {
    ...presentHead(context, row),
    created_by: row.created_by,
    created_at: row.created_at,
    last_modified_at: row.last_modified_at,
    versions: presentVersions(context, rows, allowance),
  };
}

const PAGING = definePaging({ perPage: 20, maxPerPage: 100, optional: true });

/**
 * The schema in an uploaded file, as JSON text.
 * @param what names the file in the refusal of too large JSON
 * @throws AppError invalid on `type_schema` unless it is a JSON object
 */
export async function readSchema(
  context: ReadingContext,
  { bytes }: Pick<UploadedFile, "bytes">,
  what = "The file 'type_schema'",
): Promise<string> {
  let schema: unknown;
  try {
    const file = { field: "type_schema", what, bounds: RECORD_BOUNDS, asText: true };
    schema = (await readNestedJson(context, bytes, file)).asSent;
  } catch (error) {
    if (!(error instanceof AppError) || error.fields === null) throw error;
    const [[path, problem]] = Object.entries(error.fields) as [[string, string]];
    throw invalid({ type_schema: path === "type_schema" ? problem : `type_schema.${path}: ${problem}` });
  }
  return requireSchemaText(schema, "type_schema");
}

export const postCustomAttestationType = operation({
  id: "post_custom_attestation_type",
  method: "POST",
  path: "/custom-attestation-types/{org}",
  tag: "Custom Attestation Types",
  summary: "Create a custom attestation type, or add a version to it",
  description:
    "Each call adds a version, which evaluates all further reports; an archived type becomes active again. Data must " +
    "match the schema, if there is one, and is compliant if every rule produces exactly one output, the value true. " +
    "A schema or expression that does not compile is refused with the reason.",
  permission: "custom_type:write",
  audit: "custom_type.put",
  params: OrgPath,
  query: NoQuery,
  body: typeForm,
  responses: { 201: { description: "The new version was added", schema: Ok } },
  example: {
    params: { org: "acme" },
    body: {
      name: "coverage",
      description: "Line coverage of the tests",
      evaluator: { content_type: "jq", rules: [".percent >= 80"] },
      summary: [{ name: "Coverage", expression: '"\\(.percent) %"' }],
    },
    file: '{"type":"object","required":["percent"],"properties":{"percent":{"type":"number"}}}',
  },
  async prepare(context, { body, file }): Promise<TypeDefinition> {
    const { customTypes, organization } = context;
    const { evaluator, summary = null } = body;
    const rules = evaluatorRules(evaluator);
    const definition = { schema: file && (await readSchema(context, file)), rules, summary };
    const problems = await customTypes.check(`types of ${organization.id}`, definition);
    if (Object.keys(problems).length > 0) throw invalid(problems);
    return definition;
  },
  handle({ store, organization, principal, note }, { body }, { schema, rules, summary }: TypeDefinition) {
    const { name, description, evaluator } = body;
    const { created, version } = store.customAttestationTypes.put(organization.id, {
      name,
      // An empty description equals none: readers check whether there is one.
      description: description || null,
      user: principal.displayName,
      schema_json: schema,
      content_type: evaluator && "rules" in evaluator ? "jq" : "default",
      rules_json: JSON.stringify(rules),
      summary_json: summary && JSON.stringify(summary),
    });
    note({ type: name, created, version });
    return { status: 201, body: "OK" };
  },
});

const CustomAttestationTypeListPage = PageOf("CustomAttestationTypeListPage", CustomAttestationTypeResponse);

export const getCustomAttestationTypes = largeRead({
  id: "get_custom_attestation_types",
  method: "GET",
  path: "/custom-attestation-types/{org}",
  tag: "Custom Attestation Types",
  summary: "List the custom attestation types of an organization",
  description:
    "All types by name, including archived ones, each with its versions. With `page` or `per_page`, one page of them.",
  permission: "custom_type:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGING.query,
    ...ENVELOPE,
    ...SHORTER,
    name: Type.Optional(Type.String({ description: "Part of the name, in any case" })),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All types, or one page of them",
      schema: ExactlyOne([CustomAttestationTypeListPage, Type.Array(CustomAttestationTypeResponse)]),
    },
  },
  example: { params: { org: "acme" } },
  handle(context, { query }) {
    const allowance = listAllowance(context);
    const { customAttestationTypes: types } = context.store;
    const filter = { organizationId: context.organization.id, search: query.name ?? "" };
    const window = query.envelope ? PAGING.window(query) : PAGING.optionalWindow(query);
    const rows = types.list(filter, window ?? undefined);
    const data = JsonList.from(rows, (row) => presentType(context, row, { ...query, allowance }));
    if (!query.envelope || window === null) return { status: 200, body: data };
    const pagination = presentPagination(types.count(filter), window.page, window.perPage);
    return { status: 200, body: { data, pagination } };
  },
});

export const getCustomAttestationType = largeRead({
  id: "get_custom_attestation_type",
  method: "GET",
  path: "/custom-attestation-types/{org}/{custom_attestation_type_name}",
  tag: "Custom Attestation Types",
  summary: "Read a custom attestation type with all versions or one of them",
  description: "Includes archived types.",
  permission: "custom_type:read",
  audit: null,
  params: TypePath,
  query: Closed({
    version: Type.Optional(Type.String({ description: "Number of a version; ignored unless it is an integer" })),
    ...SHORTER,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The type", schema: CustomAttestationTypeResponse },
    404: { description: "No such type, or no such version of it", schema: Message },
  },
  example: { params: { org: "acme", custom_attestation_type_name: "coverage" }, query: { version: "1" } },
  handle(context, { params, query }) {
    const types = context.store.customAttestationTypes;
    const row = types.require(context.organization, params.custom_attestation_type_name);
    if (!/^[+-]?\d+$/.test(query.version ?? ""))
      return { status: 200, body: presentType(context, row, { ...query, allowance: listAllowance(context) }) };
    const number = Number(query.version);
    const version = Number.isSafeInteger(number) ? types.findVersion(row.id, number) : null;
    if (!version) throw notFound(`version ${query.version} does not exist for custom attestation type '${row.name}'`);
    return {
      status: 200,
      body: { ...presentHead(context, row), versions: presentVersions(context, [version], singleAllowance(context)) },
    };
  },
});

export const archiveCustomAttestationType = operation({
  id: "archive_custom_attestation_type",
  method: "PUT",
  path: "/custom-attestation-types/{org}/{custom_attestation_type_name}/archive",
  tag: "Custom Attestation Types",
  summary: "Archive a custom attestation type",
  description:
    "New attestations of the type are refused; the type and its attestations stay readable. A further version makes " +
    "it active again.",
  permission: "custom_type:write",
  audit: "custom_type.archived",
  params: TypePath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Archived, now or earlier", schema: Ok },
    404: { description: "No such type", schema: Message },
  },
  example: { params: { org: "acme", custom_attestation_type_name: "coverage" } },
  handle({ store, organization, note }, { params }) {
    const row = store.customAttestationTypes.require(organization, params.custom_attestation_type_name);
    if (!store.customAttestationTypes.archive(row.id)) return { status: 200, body: "OK", unaudited: true };
    note({ type: row.name });
    return { status: 200, body: "OK" };
  },
});
