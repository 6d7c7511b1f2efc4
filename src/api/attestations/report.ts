/**
 * Reporting attestations: one factory of operations for all kinds. Everything that the kinds share (binding, history,
 * evidence, evaluation of the trail) is in record-attestation.ts.
 */
import { Type } from "typebox";
import type { Static, TObject, TSchema } from "typebox";
import { RECORD_BOUNDS, json } from "../../http/operation.ts";
import type { Example, FormBody } from "../../http/operation.ts";
import { hasManyValues, stringifyInTurns } from "../../http/body/json-pieces.ts";
import { Closed, Message, Ok, Open, named } from "../../http/schema.ts";
import { operation } from "../context.ts";
import { MAX_FREE_FORM_BYTES, parseRepoInfo } from "../../contract/shapes.ts";
import { findOrBeginTrail } from "../flows/begin-trail.ts";
import { TrailPath } from "../paths.ts";

import { COMMON_FIELDS } from "./kind.ts";
import type { AttestationKind, CommonFields } from "./kind.ts";
import { bindReport, recordAttestation } from "./record-attestation.ts";

/** What a kind prepared, and the facts of a long report as JSON text. */
type Prepared<Own> = { own: Own | null; facts: string | null };

/** A report with custom fields: its `user_data`, its data, and as much again for the rest. */
const MAX_OPEN_REPORT_BYTES = 3 * MAX_FREE_FORM_BYTES;

/** The body of the operation that reports a kind, with an example. */
function declareBody<P extends Record<string, TSchema>, Prepared>(kind: AttestationKind<P, Prepared>) {
  const fields = { ...COMMON_FIELDS, ...kind.payload };
  const schema = named(
    kind.input,
    kind.isOpen
      ? Type.Object(fields, { additionalProperties: true, "x-max-bytes": MAX_OPEN_REPORT_BYTES })
      : Open(fields),
  ) as unknown as TObject<typeof COMMON_FIELDS & P>;
  const form: FormBody<typeof schema> = {
    kind: "form",
    component: kind.form ?? "",
    part: "data_json",
    schema,
    bounds: kind.bounds ?? RECORD_BOUNDS,
    file: { part: "attachment_file", description: "Evidence: one file of any type", kind: "evidence" },
  };
  const example: Example = {
    params: { org: "acme", flow_name: "backend", trail_name: "release-1" },
    body: { attestation_name: kind.segment.replace("_", "-"), ...kind.example },
    ...(kind.form ? { file: "the evidence itself" } : {}),
  };
  return { schema, form, example };
}

/** The operation that reports a kind: multipart with an optional attachment, or plain JSON if the kind has no form. */
export function attestationOperation<P extends Record<string, TSchema>, Own = null>(kind: AttestationKind<P, Own>) {
  const { schema, form, example } = declareBody(kind);
  return operation({
    id: `post_${kind.segment}_attestation`,
    method: "POST",
    path: `/attestations/{org}/{flow_name}/trail/{trail_name}/${kind.segment}`,
    tag: "Attestation",
    summary: kind.summary,
    description: kind.description,
    permission: "attestation:write",
    audit: "attestation.reported",
    isRepeatable: true,
    params: TrailPath,
    query: Closed({}),
    body: kind.form ? form : json(schema, kind.bounds ?? RECORD_BOUNDS),
    responses: {
      201: { description: "Recorded", schema: Ok },
      404: { description: "No such flow, or no artifact with that fingerprint in the trail", schema: Message },
    },
    example,
    // All checks run before the evidence gets its final name, so that a refused report leaves no file.
    async prepare(context, { params, body, asSent, file }): Promise<Prepared<Own> | null> {
      const isLong = hasManyValues(asSent);
      if (!file?.isStaged && !kind.prepare && !isLong) return null;
      const flow = context.store.flows.requireWritable(context.organization, params.flow_name);
      const trail = context.store.trails.find(flow.id, params.trail_name);
      const common = body as CommonFields;
      bindReport(context, params, { artifacts: trail ? context.store.artifacts.listByTrail(trail.id) : [], common });
      parseRepoInfo(common.repo_info);
      const own = kind.prepare ? await kind.prepare(context, body as unknown as Static<TObject<P>>, file) : null;
      // Serialised within the write, millions of characters would hold everything else up.
      const facts = isLong ? await stringifyInTurns(kind.facts(asSent as never, own as Own)) : null;
      return { own, facts };
    },
    handle(context, { params, body, asSent, file }, prepared: Prepared<Own> | null) {
      const { flows, trailEvaluation } = context.store;
      const flow = flows.requireWritable(context.organization, params.flow_name);
      const trail =
        trailEvaluation.find(flow.id, params.trail_name) ??
        trailEvaluation.get(findOrBeginTrail(context, flow, { name: params.trail_name }).id);
      recordAttestation(context, kind, {
        params,
        flow,
        trail,
        common: body as CommonFields,
        payload: body as unknown as Static<TObject<P>>,
        asSent: asSent as unknown as Static<TObject<P>>,
        prepared: prepared?.own as Own,
        facts: prepared?.facts ?? null,
        file,
      });
      return { status: 201, body: "OK" };
    },
  });
}
