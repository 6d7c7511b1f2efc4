/** Reading evaluations of Rego policies: verdicts, inputs and exports (newer-clients 4.2 and 4.5). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { describePolicy } from "../../domain/rego/decision.ts";
import { isListOf, isObject, isText, readStoredJson } from "../../domain/stored-json.ts";
import { invalid, notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, OneOf, named } from "../../http/schema.ts";
import { JsonList, JsonText, toMembers } from "../../json/text.ts";
import { exportEvaluation } from "../../rego/export.ts";
import type { RegoEvaluationFilter, RegoEvaluationRow } from "../../store/policies/rego-evaluations.ts";
import { REGO_EVALUATION_STATUSES } from "../../store/policies/rego-evaluations.ts";
import { presentOneByOne } from "../../contract/placeholders.ts";
import { largeRead, operation } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { PageCounts, definePaging, pageCounts } from "../paging.ts";
import { NoQuery, OrgPath } from "../paths.ts";
import { EVALUATION_OPERATION } from "./rego-evaluations.ts";
import { parseVersionText } from "./rego-spellings.ts";

/** Seconds that a read of a pending evaluation waits for its end (newer-clients 4.3). */
const MAX_HELD_S = 5;

const EvaluationPath = Closed({
  ...OrgPath.properties,
  evaluation_id: Type.String({ description: "Id of the evaluation" }),
});

const Link = Closed({ href: Type.String() });
const RegoEvaluation = named(
  "RegoEvaluation",
  Closed({
    id: Type.String(),
    status: OneOf(REGO_EVALUATION_STATUSES),
    requested_at: Type.Number({ description: "The moment at which the trails were read; epoch seconds" }),
    recorded_at: Type.Number({ description: "The moment of the verdict; `requested_at` before it" }),
    result: Type.Optional(
      Type.Object(
        {
          allow: Type.Boolean(),
          violations: Type.Array(Type.String()),
        },
        {
          additionalProperties: true,
          description: "When completed. The other entry points stand in it, by their names",
        },
      ),
    ),
    error: Type.Optional(
      Closed(
        {
          kind: Type.String({
            description:
              "`no_policy`, `entrypoint`, `compile`, `input_shape`, `result_shape`, `evaluate` or `enqueue_failed`",
          }),
          message: Type.String(),
        },
        { description: "When failed" },
      ),
    ),
    decision_attestation_id: Type.Optional(Type.String({ description: "Once the decision is recorded" })),
    decision_error: Type.Optional(Type.String({ description: "Why the decision was not recorded" })),
    policy: Closed({
      source: OneOf(["inline", "published"]),
      identifier: Type.Optional(Type.String()),
      version: Type.Optional(Type.Integer()),
      sha256: Type.String({ description: "Of paths and sources" }),
    }),
    engine: Type.Optional(Type.String({ description: "Name and version" })),
    input_sha256: Type.Optional(Type.String({ description: "SHA-256 of the input document" })),
    trails: Type.Array(
      Closed({
        flow: Type.String(),
        trail: Type.String(),
        moment_number: Type.Optional(Type.Integer({ description: "Number of changes of the trail up to the request" })),
      }),
    ),
    params: Type.Record(Type.String(), Type.Unknown()),
    decision: Type.Optional(
      Closed({
        control: Type.String(),
        name: Type.String(),
        flow: Type.String(),
        trail: Type.String(),
        fingerprint: Type.Optional(Type.String()),
      }),
    ),
    requested_by: Type.String(),
    duration_ms: Type.Optional(Type.Number({ description: "Time in the engine" })),
    _links: Closed({ input: Type.Optional(Link), bundle: Link }),
  }),
);
const RegoEvaluationListPage = named(
  "RegoEvaluationListPage",
  Closed({ ...PageCounts, evaluations: Type.Array(RegoEvaluation) }),
);
const EXAMPLE = { params: { org: "acme", evaluation_id: "0f5c9a1d-2b3e-4f50-8172-8394a5b6" } };
const NO_EVALUATION = { description: "No such evaluation", schema: Message };

type EvaluatedTrail = { flow: string; trail: string; moment_number?: number };
const isTrailList = isListOf((value: unknown): value is EvaluatedTrail => isObject(value) && isText(value["flow"]));
const isTextList = isListOf(isText);

/** Members without a value are left out, never null (newer-clients 4.2). @throws StoredJsonError */
function presentEvaluation(context: LargeReadContext, row: RegoEvaluationRow): Static<typeof RegoEvaluation> {
  const { store, organization, urls } = context;
  const version = row.rego_policy_version_id;
  const decision = row.decision_attestation_id;
  const href = `${urls.apiRoot}/evaluations/${organization.name}/${row.public_id}`;
  return {
    id: row.public_id,
    status: row.status,
    requested_at: row.requested_at,
    recorded_at: row.recorded_at,
    ...(row.status === "completed" ? { result: presentResult(row) } : {}),
    ...(row.error_kind === null ? {} : { error: { kind: row.error_kind, message: row.error_message ?? "" } }),
    ...(decision === null ? {} : { decision_attestation_id: store.attestations.get(decision).public_id }),
    ...(row.decision_error === null ? {} : { decision_error: row.decision_error }),
    policy: describePolicy({
      published: version === null ? null : store.regoPolicies.getVersionName(version),
      bundleSha256: row.bundle_sha256,
    }),
    ...(row.engine === null ? {} : { engine: row.engine }),
    ...(row.input_sha256 === null ? {} : { input_sha256: row.input_sha256 }),
    trails: readStoredJson(row.trails_json, isTrailList),
    params: storedObject(row.params_json) as unknown as Record<string, unknown>,
    ...presentDecision(row),
    requested_by: row.requested_by,
    ...(row.duration_ms === null ? {} : { duration_ms: row.duration_ms }),
    _links: {
      ...(row.input_digest === null ? {} : { input: { href: `${href}/input` } }),
      bundle: { href: `${href}/bundle` },
    },
  };
}

/** Outputs are as the engine wrote them, so that numbers of any size stay what they are. */
const presentResult = (row: RegoEvaluationRow) => ({
  ...toMembers(storedObject(row.outputs_json ?? "{}")),
  allow: row.allow === 1,
  violations: readStoredJson(row.violations_json ?? "", isTextList),
});

function presentDecision(row: RegoEvaluationRow) {
  const { decision_control: control, decision_name: name, decision_flow: flow, decision_trail: trail } = row;
  if (control === null || name === null || flow === null || trail === null) return {};
  const { decision_fingerprint: fingerprint } = row;
  return { decision: { control, name, flow, trail, ...(fingerprint === null ? {} : { fingerprint }) } };
}

/** A stored object with its numbers as they are. @throws StoredJsonError */
function storedObject(text: string): JsonText {
  readStoredJson(text, isObject);
  return new JsonText(text);
}

/** An evaluation whose record cannot be shown. */
const placeholder = (context: LargeReadContext, row: RegoEvaluationRow, reason: string) =>
  presentEvaluation(context, {
    ...row,
    status: "failed",
    error_kind: "unreadable",
    error_message: reason,
    trails_json: "[]",
    params_json: "{}",
    violations_json: "[]",
    outputs_json: "{}",
  });

export const getRegoEvaluation = largeRead({
  ...EVALUATION_OPERATION,
  id: "get_rego_evaluation",
  method: "GET",
  path: "/evaluations/{org}/{evaluation_id}",
  summary: "Read an evaluation",
  description: "A pending evaluation is answered when it ends, at the latest after five seconds.",
  permission: "evaluation:read",
  audit: null,
  params: EvaluationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The evaluation", schema: RegoEvaluation }, 404: NO_EVALUATION },
  example: EXAMPLE,
  async prepare({ store, organization, principal, rego }, { params }) {
    const { id, status } = store.regoEvaluations.require(organization, params.evaluation_id);
    const caller = principal.publicId;
    if (status === "pending") await rego.evaluator.waitFor(id, { caller, seconds: MAX_HELD_S });
  },
  handle: (context, { params }) => ({
    status: 200,
    body: presentEvaluation(context, context.store.regoEvaluations.require(context.organization, params.evaluation_id)),
  }),
});

const PAGES = definePaging({ perPage: 15, maxPerPage: 100 });
const Timestamp = (description: string) => Type.Optional(Type.Number({ description: `${description}; epoch seconds` }));

const VERSION_OF_NOTHING = "Give the identifier of the policy, too: `version` is the number of a version of it";

export const listRegoEvaluations = largeRead({
  ...EVALUATION_OPERATION,
  id: "list_rego_evaluations",
  method: "GET",
  path: "/evaluations/{org}",
  summary: "List the evaluations of an organization",
  description: "In pages, newest first. All filters must match.",
  permission: "evaluation:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    status: Type.Optional(OneOf(REGO_EVALUATION_STATUSES)),
    allow: Type.Optional(Type.Boolean({ description: "Only with this verdict" })),
    identifier: Type.Optional(Type.String({ description: "Identifier of a Rego policy" })),
    version: Type.Optional(Type.String({ description: "Number of a version of it: `2` or `v2`" })),
    control: Type.Optional(Type.String({ description: "The control of the decision that was asked for" })),
    flow: Type.Optional(Type.String({ description: "Name of the flow of an evaluated trail" })),
    trail: Type.Optional(Type.String({ description: "Name of an evaluated trail" })),
    from_timestamp: Timestamp("Requested at or after"),
    to_timestamp: Timestamp("Requested at or before"),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: RegoEvaluationListPage } },
  example: { params: { org: "acme" }, query: { status: "completed", allow: "false" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const { page, perPage, ...slice } = PAGES.window(query);
    if (query.version !== undefined && query.identifier === undefined) throw invalid({ version: VERSION_OF_NOTHING });
    const flow = query.flow === undefined ? null : store.flows.find(organization.id, query.flow);
    const version = query.version === undefined ? null : parseVersionText(query.version);
    const isEmpty = (query.flow !== undefined && !flow) || (query.version !== undefined && version === null);
    if (isEmpty) return { status: 200, body: { ...pageCounts(0, page, perPage), evaluations: [] } };
    const filter: RegoEvaluationFilter = {
      status: query.status ?? null,
      allow: query.allow ?? null,
      identifier: query.identifier ?? null,
      version,
      control: query.control ?? null,
      flowId: flow?.id ?? null,
      trail: query.trail ?? null,
      from: query.from_timestamp ?? null,
      to: query.to_timestamp ?? null,
    };
    const evaluations = new JsonList(
      presentOneByOne(
        store.regoEvaluations.list(organization.id, filter, slice),
        (row) => presentEvaluation(context, row),
        (row, reason) => placeholder(context, row, reason),
      ),
    );
    const counts = pageCounts(store.regoEvaluations.count(organization.id, filter), page, perPage);
    return { status: 200, body: { ...counts, evaluations } };
  },
});

export const getRegoEvaluationInput = operation({
  ...EVALUATION_OPERATION,
  id: "get_rego_evaluation_input",
  method: "GET",
  path: "/evaluations/{org}/{evaluation_id}/input",
  summary: "Read the input document of an evaluation",
  description: "Byte for byte as the policy read it: its SHA-256 is `input_sha256` of the evaluation.",
  permission: "evaluation:read",
  audit: null,
  params: EvaluationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The document",
      contentType: "application/json",
      schema: Type.Record(Type.String(), Type.Unknown()),
      isDownload: true,
    },
    404: { description: "No such evaluation, or it has no input", schema: Message },
  },
  example: EXAMPLE,
  handle({ store, organization, rego }, { params }) {
    const row = store.regoEvaluations.require(organization, params.evaluation_id);
    const { public_id: id, input_digest: digest, input_sha256: sha256, input_bytes: size } = row;
    if (digest === null || sha256 === null || size === null) throw notFound(`Evaluation '${id}' has no input`);
    return {
      status: 200,
      download: {
        size,
        contentType: "application/json",
        filename: `${id}-input.json`,
        etag: sha256,
        open: (range) => rego.documents.openUnpacked(digest, range),
      },
    };
  },
});

export const downloadRegoEvaluationBundle = operation({
  ...EVALUATION_OPERATION,
  id: "download_rego_evaluation_bundle",
  method: "GET",
  path: "/evaluations/{org}/{evaluation_id}/bundle",
  summary: "Download everything that an evaluation was made from",
  description:
    "A gzipped tar with `input.json`, `data.json` (the parameters and the time) and the policy in `policy/`, so that " +
    "`opa eval -i input.json -d data.json -d policy 'data.<package>.allow'` gives the verdict without this server, " +
    "unless the policy reads clock or randomness. `README.txt` has the command.",
  permission: "evaluation:read",
  audit: null,
  params: EvaluationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The archive",
      contentType: "application/gzip",
      schema: Type.String({ format: "binary" }),
      isStream: true,
    },
    404: NO_EVALUATION,
  },
  example: EXAMPLE,
  handle({ store, organization, rego }, { params }) {
    const row = store.regoEvaluations.require(organization, params.evaluation_id);
    return {
      status: 200,
      stream: {
        contentType: "application/gzip",
        filename: `${row.public_id}.tar.gz`,
        open: () => exportEvaluation(rego.documents, row),
      },
    };
  },
});
