/**
 * The input document of a Rego evaluation: trails as responses show them, with the attestations of their status entries
 * (newer-clients 6.1). A policy that was written for documents of the client finds the same members here.
 */
import type { TrailStatus } from "../domain/compliance/trail.ts";
import { LargeAnswerError } from "../http/answers/large-answers.ts";
import { unlimitedAllowance } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { presentAttestation } from "./present-attestation.ts";
import type { TrailOutline } from "./present-trail.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { writeEditedTrail } from "./trail-texts.ts";

/** Bytes of an input document. */
export const MAX_INPUT_BYTES = 32 << 20;

/** A trail as an evaluation saw it: `moment_number` counts its changes from 1. */
type EvaluatedTrail = { flow: string; trail: string; moment_number: number };

export type EvaluationInput = {
  /** The document as JSON text, in pieces. */
  pieces: string[];
  trails: EvaluatedTrail[];
  /** Public ids of the attestations in the document, once each. */
  attestationIds: string[];
};

/** What to read. `trailIds`: row ids, in order, each once. `baseUrl`: for the links of the document. */
export type InputTask = { organizationId: number; trailIds: readonly number[]; baseUrl: string };

/**
 * `packed`: the document, gzipped; `sha256`, in hex, and `bytes` of the document itself. `problem`: why there is no
 * document. `readAt`: the moment that was read, in epoch seconds.
 */
export type PackedInput = { readAt: number } & (
  | { packed: Uint8Array; sha256: string; bytes: number; trails: EvaluatedTrail[]; attestationIds: string[] }
  | { problem: string }
);

/** Why there is no document: over its limit, or made of a damaged record, of which `cause` is for the log. */
export class InputProblem extends Error {
  override readonly name = "InputProblem";
}

/**
 * Builds the document of trails, in their order. Run it in one read transaction: then all of it is of one moment.
 * Evidence is read whole, never shortened: what is not there must not decide.
 * @param trailIds row ids, each once
 * @throws InputProblem; LargeAnswerError beyond `context.answerBounds`
 */
export function buildEvaluationInput(context: PresenterContext, trailIds: readonly number[]): EvaluationInput {
  const allowance = unlimitedAllowance(context);
  const trails: EvaluatedTrail[] = [];
  const attestationIds = new Set<string>();
  // A single trail is in the document twice.
  const copies = trailIds.length === 1 ? 2 : 1;
  let bytes = 0;
  const texts = trailIds.map((id) => {
    const pieces: string[] = [];
    for (const piece of writeTrail(context, { id, allowance }, { trails, attestationIds })) {
      bytes += Buffer.byteLength(piece) * copies;
      if (bytes > MAX_INPUT_BYTES) throw inputTooLarge(trailIds.length);
      pieces.push(piece);
    }
    return pieces;
  });
  return { pieces: assemble(texts), trails, attestationIds: [...attestationIds] };
}

/** The problem of a document over its limit. */
export const inputTooLarge = (trails: number): InputProblem =>
  new InputProblem(
    `The input document of ${trails} ${trails === 1 ? "trail" : "trails"} is over the limit of ` +
      `${MAX_INPUT_BYTES} bytes${trails === 1 ? "" : ": evaluate fewer trails"}`,
  );

type Found = { trails: EvaluatedTrail[]; attestationIds: Set<string> };

/** @throws InputProblem that names the trail of a damaged record; LargeAnswerError; errors of the database */
function* writeTrail(
  context: PresenterContext,
  { id, allowance }: { id: number; allowance: Allowance },
  found: Found,
): Generator<string> {
  const row = context.store.trails.getListed(id);
  try {
    yield* writeEditedTrail(context, row, {
      allowance,
      edit: (outline) => describeMoment(context, { id, outline, allowance }, found),
    });
  } catch (error) {
    const isDamage = error instanceof Error && !(error instanceof LargeAnswerError) && !("code" in error);
    if (!isDamage) throw error;
    const flow = context.store.flows.get(row.flow_id).name;
    throw new InputProblem(
      `A record of trail '${row.name}' of flow '${flow}' is damaged. Tell the operator of the server`,
      { cause: error },
    );
  }
}

function assemble(texts: readonly string[][]): string[] {
  const [first = []] = texts;
  const list = texts.flatMap((pieces, index) => (index === 0 ? pieces : [",", ...pieces]));
  const single = texts.length === 1 ? ['{"trail":', ...first, ',"trails":['] : ['{"trails":['];
  return [...single, ...list, "]}"];
}

/** The outline of a trail as policies read it: with its moment, and with the attestations of its status entries. */
function describeMoment(
  context: PresenterContext,
  { id, outline, allowance }: { id: number; outline: TrailOutline; allowance: Allowance },
  { trails, attestationIds }: Found,
): Record<string, unknown> {
  const flow = outline.flow.name;
  const momentNumber = Math.max(1, context.store.trails.countEvents(id));
  trails.push({ flow, trail: outline.name, moment_number: momentNumber });
  const status = outline.compliance_status as TrailStatus;
  const expand = (entries: TrailStatus["attestations_statuses"]) =>
    expandEntries(context, entries, { attestationIds, allowance });
  return {
    ...outline,
    flow_name: flow,
    trail_name: outline.name,
    moment_number: momentNumber,
    created_at: outline.last_modified_at,
    template_id: status.flow_template_id,
    compliance_status: {
      ...status,
      attestations_statuses: expand(status.attestations_statuses),
      artifacts_statuses: Object.fromEntries(
        Object.entries(status.artifacts_statuses).map(([name, artifact]) => [
          name,
          { ...artifact, attestations_statuses: expand(artifact.attestations_statuses) },
        ]),
      ),
    },
  };
}

/**
 * Status entries by the names of their attestations: of equal names the last counts. Each gets the members of its
 * attestation that it lacks; a member that it has stays, also when that is null.
 */
function expandEntries(
  context: PresenterContext,
  entries: TrailStatus["attestations_statuses"],
  { attestationIds, allowance }: { attestationIds: Set<string>; allowance: Allowance },
): Record<string, unknown> {
  const { store, organization } = context;
  const byName = new Map<string, unknown>();
  for (const entry of entries) {
    if (typeof entry.attestation_name !== "string") continue;
    const id: unknown = entry.attestation_id;
    const row = typeof id === "string" ? store.attestations.findByPublicId(organization.id, id) : null;
    if (row) attestationIds.add(row.public_id);
    const attestation = row ? presentAttestation(context, row, { allowance }) : {};
    byName.set(entry.attestation_name, { ...attestation, ...entry });
  }
  return Object.fromEntries(byName);
}
