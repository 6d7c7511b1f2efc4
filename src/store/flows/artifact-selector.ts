/**
 * Selectors: query parameters that distinguish one record of an artifact from the others of its fingerprint in a flow.
 */
import { hasMembers, readStoredJson } from "../../domain/stored-json.ts";
import type { ArtifactSelector } from "../../domain/notification/event.ts";

/**
 * The column `selector_json` of an artifact record: an ArtifactSelector that stays valid whichever record becomes the
 * latest. It is `{}` for the only record of its fingerprint in the flow, names the trail where several trails have one,
 * and adds the id where the trail does not suffice: several reference names in one trail, or no trail. Costs two index
 * lookups.
 * @param alias of the table `artifacts`. Under an outer join without a match the selector is `{}`.
 */
export const selectorColumn = (alias: string): string => {
  const trailName = `(SELECT name FROM trails WHERE id = ${alias}.trail_id)`;
  const other = (place: string): string =>
    `EXISTS (SELECT 1 FROM artifacts same
             WHERE ${place} AND same.fingerprint = ${alias}.fingerprint AND same.id <> ${alias}.id)`;
  return `CASE WHEN NOT ${other(`same.flow_id = ${alias}.flow_id`)} THEN '{}'
      WHEN ${alias}.trail_id IS NULL THEN json_object('artifact_id', ${alias}.public_id)
      WHEN ${other(`same.trail_id = ${alias}.trail_id`)}
        THEN json_object('trail', ${trailName}, 'artifact_id', ${alias}.public_id)
      ELSE json_object('trail', ${trailName}) END AS selector_json`;
};

/** Parses a `selector_json` column. */
export const readSelector = ({ selector_json }: { selector_json: string }): ArtifactSelector =>
  readStoredJson(selector_json, hasMembers<ArtifactSelector>());
