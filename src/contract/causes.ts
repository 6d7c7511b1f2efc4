/**
 * Why something is not compliant, as responses say it: the causes of a verdict, each once, in words that begin with
 * what decided (domain/compliance/cause-words.ts).
 */
import { Type } from "typebox";
import type { VerdictCause } from "../domain/compliance/causes.ts";
import { Closed, named } from "../http/schema.ts";
import { MAX_CAUSES } from "../store/environments/verdict-causes.ts";

/** The two members of a cause that are for people. */
export const causeWords = {
  subject: Type.String({
    description: "What decided, such as the name of an attestation: the beginning of `text`, or empty",
  }),
  text: Type.String({ description: "A sentence without a full stop: `snyk-container fails: 1 high`" }),
};

const DESCRIPTION = `Why it is not compliant, at most ${MAX_CAUSES}: what decided, each once however many rules fail`;

/** The members of an object with a verdict. */
export const Causes = {
  causes: Type.Array(named("Cause", Closed(causeWords)), { description: DESCRIPTION }),
  further_causes: Type.Integer({ minimum: 0, description: "Causes that `causes` has no room for" }),
};
/** The same members, where a query parameter `causes` asks for them. */
export const OptionalCauses = {
  causes: Type.Optional({ ...Causes.causes, description: `${DESCRIPTION}. Present with \`causes\`` }),
  further_causes: Type.Optional(Causes.further_causes),
};
/** The query parameter of a list or answer that can have causes. */
export const CausesQuery = {
  causes: Type.Optional(
    Type.Boolean({ default: false, description: "Adds `causes` and `further_causes`: why it is not compliant" }),
  ),
};

/** The reasons of the record that a cause is about; null without one. */
export const findingsOf = (
  { attestation_id: id }: Pick<VerdictCause, "attestation_id">,
  records: ReadonlyMap<string, { reasons: readonly string[] | null }>,
): readonly string[] | null => (id === null ? null : (records.get(id)?.reasons ?? null));
