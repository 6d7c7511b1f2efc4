/** The causes in previews, in words: what decided, and what its record found. */
import type { ShortCause } from "../../domain/compliance/cause-words.ts";
import { shortenCause } from "../../domain/compliance/cause-words.ts";
import type { PreviewCause } from "../../domain/compliance/preview.ts";
import type { ChangePreview } from "../../store/environments/preview-results.ts";
import { memoize } from "../../contract/memoize.ts";
import type { ReadingContext } from "../context.ts";

/** Records that are read for one answer, some milliseconds; causes by others say only that they fail. */
const MAX_RECORDS = 200;

type Worded = PreviewCause & ShortCause;

/** Writes the causes of one answer. */
export function createCauseWriter({
  store,
  organization,
}: Pick<ReadingContext, "store" | "organization">): (cause: PreviewCause) => Worded {
  let left = MAX_RECORDS;
  const reasonsOf = memoize((id: string) => (left-- > 0 ? store.verdictCauses.findReasons(organization.id, id) : null));
  return (cause) => ({
    ...cause,
    ...shortenCause(cause, cause.attestation_id === null ? null : reasonsOf(cause.attestation_id)),
  });
}

/** Environments of a preview with their causes in words, those of flips first. */
export function writeCauses<T extends ChangePreview["environments"][number]>(
  context: Pick<ReadingContext, "store" | "organization">,
  environments: readonly T[],
) {
  const write = createCauseWriter(context);
  const inWords = (artifacts: T["flips"]) =>
    artifacts.map((artifact) => ({ ...artifact, causes: artifact.causes.map(write) }));
  return environments.map((environment) => ({
    ...environment,
    flips: inWords(environment.flips),
    allowlisted: inWords(environment.allowlisted),
  }));
}
