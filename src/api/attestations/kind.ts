/** What a kind of attestation declares: its payload, its evaluation and the fields of its record (semantics 3). */
import { Type } from "typebox";
import type { Static, TObject, TSchema } from "typebox";
import type { AttestationVerdict } from "../../domain/attestation/verdicts.ts";
import { ATTESTATION_NAME } from "../../domain/names.ts";
import type { JsonBounds } from "../../http/body/read-json.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { Closed, Maybe } from "../../http/schema.ts";
import type { ReadingContext } from "../context.ts";
import {
  Annotations,
  ExternalUrls,
  Fingerprint,
  GitCommit,
  MAX_LIST_ITEMS,
  Name,
  RepoInfoPostInput,
  Text,
  UserData,
  WebUrl,
} from "../../contract/shapes.ts";
import type { NewAttestation } from "../../store/attestations/attestation-rows.ts";

/** The fields of every kind (semantics 3.1). */
export const COMMON_FIELDS = {
  attestation_name: Name(ATTESTATION_NAME, {
    description: "Name of the attestation, without the artifact's part of a dotted name",
  }),
  origin_url: Maybe(WebUrl),
  description: Maybe(Text),
  artifact_fingerprint: Maybe(Fingerprint),
  target_artifacts: Maybe(
    Type.Array(Name(ATTESTATION_NAME), {
      maxItems: MAX_LIST_ITEMS,
      description: "Names of the artifacts in the template that this belongs to; clients send one",
    }),
  ),
  git_commit_info: Maybe(GitCommit),
  repo_info: Maybe(RepoInfoPostInput),
  external_urls: Maybe(ExternalUrls),
  annotations: Maybe(Annotations),
  user_data: Maybe(UserData),
};
const Common = Closed(COMMON_FIELDS);
export type CommonFields = Static<typeof Common>;

export type AttestationKind<P extends Record<string, TSchema>, Prepared> = {
  /** Last segment of the path. */
  segment: string;
  /** Component names of the input shape and of its form; a kind without a form takes plain JSON. */
  input: string;
  form: string | null;
  summary: string;
  description: string;
  payload: P;
  /** Bounds of the JSON, if they differ from those of other kinds. */
  bounds?: JsonBounds;
  /** Whether custom fields are accepted; `facts` selects what is stored of them. */
  isOpen?: true;
  /**
   * Does the part of the evaluation that cannot happen inside a transaction, after all other checks passed.
   * @param file the attachment, null without one
   * @throws AppError to refuse the report; nothing of it is stored then
   */
  prepare?(context: ReadingContext, payload: Static<TObject<P>>, file: UploadedFile | null): Promise<Prepared>;
  evaluate(payload: Static<TObject<P>>, prepared: Prepared): AttestationVerdict;
  /** The fields of the record in addition to the common ones. @param payload as it was sent (`Input.asSent`) */
  facts(payload: Static<TObject<P>>, prepared: Prepared): Record<string, unknown>;
  /** The stored label, if it differs from the segment. */
  label?(payload: Static<TObject<P>>): string;
  /** The values of columns that only some kinds have. */
  columns?(
    context: Pick<ReadingContext, "store" | "organization">,
    payload: Static<TObject<P>>,
    prepared: Prepared,
  ): Partial<Pick<NewAttestation, "type_version" | "control" | "control_version">>;
  /** For an override: the client's name of the overridden type. */
  originalType?(payload: Static<TObject<P>>): string;
  example: Record<string, unknown>;
};

/** Types the declaration of a kind that inbound webhooks record as well (api/notifications/inbound-webhooks.ts). */
export const defineKind = <P extends Record<string, TSchema>>(
  declaration: AttestationKind<P, null>,
): AttestationKind<P, null> => declaration;
