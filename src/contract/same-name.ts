/** The record of another fingerprint that has the name of an artifact which no flow knows. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { SAME_NAME_MEANING, describeSameName } from "../domain/compliance/same-name.ts";
import type { SameNameRecord } from "../domain/compliance/same-name.ts";
import { Closed, Nullable, named } from "../http/schema.ts";

export const SameName = named(
  "SameName",
  Closed(
    {
      flow: Type.String(),
      trail: Nullable(Type.String({ description: "null if it was reported without a trail" })),
      fingerprint: Type.String(),
      artifact_id: Type.String(),
      words: Type.String({ description: "What was reported, and what that usually means" }),
    },
    {
      description:
        "Only of an artifact that is known to no flow, if an artifact of the same name was reported with another " +
        "fingerprint: the latest record of it, now and not at the evaluation. In snapshots, only in their pages",
    },
  ),
);

/** The member `same_name`; none without a record. */
export const presentSameName = (record: SameNameRecord | null): { same_name?: Static<typeof SameName> } =>
  record === null
    ? {}
    : {
        same_name: {
          flow: record.flow,
          trail: record.trail,
          fingerprint: record.fingerprint,
          artifact_id: record.artifactId,
          words: `${describeSameName(record)}. ${SAME_NAME_MEANING}`,
        },
      };
