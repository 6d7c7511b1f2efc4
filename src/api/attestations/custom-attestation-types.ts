/** Attestation types that organizations define for themselves (semantics 3.4). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { CUSTOM_TYPE_NAME } from "../../domain/names.ts";
import { AppError, invalid, notFound } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { stringifyJson } from "../../json/text.ts";
import { Closed, Maybe, Message, Nullable, Ok, named } from "../../http/schema.ts";
import type { CustomTypeRow, CustomTypeVersionRow } from "../../store/attestations/custom-attestation-types.ts";
import type { SummaryEntry as SummaryExpression, TypeDefinition } from "../../workers/sandbox/attestation-types.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { listAllowance, singleAllowance, soundJson, takeText } from "../../contract/large-json.ts";
import type { Allowance } from "../../contract/large-json.ts";
import { readNested } from "../nested-json.ts";
import { NAME_LENGTH, Name, Text } from "../../contract/shapes.ts";
import { presentEach } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { configurationForm, versionFields } from "../uploads.ts";

const TypePath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  custom_attestation_type_name: Type.String({ description: "Name of the type" }),
});

/** Rules of a type run one after the other in two seconds; a summary is a page. */
const MAX_EXPRESSIONS = 100;
const Expression = Type.String({ minLength: 1, maxLength: 10_000, description: "A jq expression" });

const JQEvaluator = named(
  "JQEvaluator",
  Closed({
    content_type: Type.Optional(Type.Literal("jq", { default: "jq" })),
    rules: Type.Array(Expression, {
      maxItems: MAX_EXPRESSIONS,
      description: "Data is compliant when every rule gives exactly one output, the value true",
    }),
  }),
);
const DefaultEvaluator = named(
  "DefaultEvaluator",
  Closed({ content_type: Type.Optional(Type.Literal("default", { default: "default" })) }),
);
const SummaryEntry = named(
  "SummaryEntry",
  Closed({
    name: Type.String({ minLength: 1, maxLength: NAME_LENGTH, description: "Label of the row" }),
    expression: Expression,
  }),
);
const Summary = Nullable(Type.Array(SummaryEntry, { maxItems: MAX_EXPRESSIONS }));

const CustomAttestationTypePostInput = named(
  "CustomAttestationTypePostInput",
  Closed({
    name: Name(CUSTOM_TYPE_NAME, {
      description: "Name of the type; one that has it gets a further version and is active again",
    }),
    description: Maybe(Text),
    evaluator: Maybe(
      Type.Union([JQEvaluator, DefaultEvaluator], {
        description: "How data is judged; left out, whatever fits the schema is compliant",
      }),
    ),
    summary: Type.Optional(Summary),
  }),
);

const typeForm = configurationForm({
  component: "CustomAttestationTypeForm",
  part: "data_json",
  schema: CustomAttestationTypePostInput,
  file: {
    part: "type_schema",
    description: "JSON Schema of the data, draft-07 or 2020-12 as `$schema` says (2020-12 without), at most 10 MB",
  },
});

const CustomAttestationTypeVersion = named(
  "CustomAttestationTypeVersion",
  Closed({
    ...versionFields,
    comment: Type.Optional(Type.String({ description: "Left out when unset" })),
    type_schema: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: "JSON Schema. Left out when unset" }),
    ),
    evaluator: Type.Union([JQEvaluator, DefaultEvaluator]),
    summary: Summary,
  }),
);

const CustomAttestationTypeResponse = named(
  "CustomAttestationTypeResponse",
  Closed({
    name: Type.String(),
    description: Type.Optional(Type.String({ description: "Left out when unset" })),
    org: Type.String(),
    archived: Type.Boolean(),
    created_by: Type.Optional(Type.String({ description: "Left out when one version is asked for" })),
    created_at: Type.Optional(Type.Number({ description: "Left out when one version is asked for" })),
    last_modified_at: Type.Optional(
      Type.Number({
        description: "When a version was added or the type archived. Left out when one version is asked for",
      }),
    ),
    versions: Type.Array(CustomAttestationTypeVersion, { description: "Newest first" }),
  }),
);
type TypeView = Static<typeof CustomAttestationTypeResponse>;

/** What a stored version says, for those who judge by it. @throws SyntaxError for one that is damaged. */
export const definitionOf = ({ schema_json, rules_json, summary_json }: CustomTypeVersionRow): TypeDefinition => ({
  schema: schema_json,
  rules: JSON.parse(rules_json) as string[],
  summary: summary_json === null ? null : (JSON.parse(summary_json) as SummaryExpression[]),
});

function presentVersion(row: CustomTypeVersionRow, allowance: Allowance): Static<typeof CustomAttestationTypeVersion> {
  const { schema, rules, summary } = definitionOf(row);
  takeText(allowance, schema ?? "");
  return {
    version: row.version,
    timestamp: row.timestamp,
    created_by: row.created_by,
    ...(row.comment === null ? {} : { comment: row.comment }),
    ...(schema === null ? {} : { type_schema: soundJson(schema) as Record<string, unknown> }),
    evaluator: row.content_type === "jq" ? { content_type: "jq", rules: [...rules] } : { content_type: "default" },
    summary: summary && [...summary],
  };
}

/** The version marked as damaged; it keeps its place, because clients count versions. */
const unreadableVersion = (
  { version, timestamp, created_by }: CustomTypeVersionRow,
  mark: string,
): Static<typeof CustomAttestationTypeVersion> => ({
  version,
  timestamp,
  created_by,
  comment: mark,
  evaluator: { content_type: "default" },
  summary: null,
});

const presentVersions = (
  rows: Iterable<CustomTypeVersionRow>,
  allowance: Allowance,
): Static<typeof CustomAttestationTypeVersion>[] =>
  presentEach(rows, (row) => presentVersion(row, allowance), unreadableVersion);

const presentHead = ({ organization }: OperationContext, row: CustomTypeRow) => ({
  name: row.name,
  ...(row.description === null ? {} : { description: row.description }),
  org: organization.name,
  archived: row.archived_at !== null,
});

const presentType = (context: OperationContext, row: CustomTypeRow, allowance: Allowance): TypeView => ({
  ...presentHead(context, row),
  created_by: row.created_by,
  created_at: row.created_at,
  last_modified_at: row.last_modified_at,
  versions: presentVersions(context.store.customAttestationTypes.versions(row.id), allowance),
});

/**
 * The schema of an uploaded file, as JSON text. @throws AppError invalid on `type_schema` for anything but a JSON
 * object.
 */
async function readSchema(context: OperationContext, { bytes }: UploadedFile): Promise<string> {
  let schema: unknown;
  try {
    schema = await readNested(context, bytes, {
      field: "type_schema",
      what: "The file 'type_schema'",
      bounds: RECORD_BOUNDS,
      asText: true,
    });
  } catch (error) {
    if (!(error instanceof AppError) || error.fields === null) throw error;
    const [[path, problem]] = Object.entries(error.fields) as [[string, string]];
    throw invalid({ type_schema: path === "type_schema" ? problem : `type_schema.${path}: ${problem}` });
  }
  const text = stringifyJson(schema);
  if (!text.startsWith("{")) throw invalid({ type_schema: "Input should be a JSON object" });
  return text;
}

export const postCustomAttestationType = operation({
  id: "post_custom_attestation_type",
  method: "POST",
  path: "/custom-attestation-types/{org}",
  tag: "Custom Attestation Types",
  summary: "Create a type of attestations, or add a version to it",
  description:
    "Each call adds a version, which judges what is reported from then on; an archived type is active again. Data must fit the schema, if there is one, " +
    "and is compliant when every rule gives exactly one output, the value true. A schema or an expression that does not compile is refused with the reason.",
  permission: "custom_type:write",
  audit: "custom_type.put",
  params: OrgPath,
  query: NoQuery,
  body: typeForm,
  responses: { 201: { description: "There is a new version", schema: Ok } },
  example: {
    params: { org: "acme" },
    body: {
      name: "coverage",
      description: "Share of lines that tests run",
      evaluator: { content_type: "jq", rules: [".percent >= 80"] },
      summary: [{ name: "Coverage", expression: '"\\(.percent) %"' }],
    },
    file: '{"type":"object","required":["percent"],"properties":{"percent":{"type":"number"}}}',
  },
  async prepare(context, { body, file }): Promise<TypeDefinition> {
    const { customTypes, organization } = context;
    const { evaluator, summary = null } = body;
    const rules = evaluator && "rules" in evaluator ? evaluator.rules : [];
    const definition = { schema: file && (await readSchema(context, file)), rules, summary };
    const problems = await customTypes.check(`types of ${organization.id}`, definition);
    if (Object.keys(problems).length > 0) throw invalid(problems);
    return definition;
  },
  handle({ store, organization, principal, note }, { body }, { schema, rules, summary }: TypeDefinition) {
    const { name, description, evaluator } = body;
    const { created, version } = store.customAttestationTypes.put(organization.id, {
      name,
      // An empty one and none are the same: readers look whether there is one.
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

export const getCustomAttestationTypes = operation({
  id: "get_custom_attestation_types",
  method: "GET",
  path: "/custom-attestation-types/{org}",
  tag: "Custom Attestation Types",
  summary: "List the types of attestations that an organization defined",
  description: "All types by name, archived ones too, each with its versions.",
  permission: "custom_type:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The types", schema: Type.Array(CustomAttestationTypeResponse) } },
  example: { params: { org: "acme" } },
  handle(context) {
    const allowance = listAllowance();
    return {
      status: 200,
      body: context.store.customAttestationTypes
        .list(context.organization.id)
        .map((row) => presentType(context, row, allowance)),
    };
  },
});

export const getCustomAttestationType = operation({
  id: "get_custom_attestation_type",
  method: "GET",
  path: "/custom-attestation-types/{org}/{custom_attestation_type_name}",
  tag: "Custom Attestation Types",
  summary: "Read a type of attestations with its versions, or with one of them",
  description: "Archived types are found too.",
  permission: "custom_type:read",
  audit: null,
  params: TypePath,
  query: Closed({
    version: Type.Optional(
      Type.String({ description: "Number of a version; anything but an integer gives the type with all of them" }),
    ),
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
      return { status: 200, body: presentType(context, row, listAllowance()) };
    const number = Number(query.version);
    const version = Number.isSafeInteger(number) ? types.version(row.id, number) : null;
    if (!version) throw notFound(`version ${query.version} does not exist for custom attestation type '${row.name}'`);
    return {
      status: 200,
      body: { ...presentHead(context, row), versions: presentVersions([version], singleAllowance()) },
    };
  },
});

export const archiveCustomAttestationType = operation({
  id: "archive_custom_attestation_type",
  method: "PUT",
  path: "/custom-attestation-types/{org}/{custom_attestation_type_name}/archive",
  tag: "Custom Attestation Types",
  summary: "Retire a type of attestations",
  description:
    "New attestations of the type are refused; those that exist stay readable, and so does the type. A further version makes it active again.",
  permission: "custom_type:write",
  audit: "custom_type.archived",
  params: TypePath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Archived, now or before", schema: Ok },
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
