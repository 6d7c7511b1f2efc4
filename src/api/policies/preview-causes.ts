/** The causes in previews, in words: what decided, and what its record found; and why members fail. */
import type { ShortCause } from "../../domain/compliance/cause-words.ts";
import { shortenCause } from "../../domain/compliance/cause-words.ts";
import type { PreviewCause } from "../../domain/compliance/preview.ts";
import type { ChangePreview, DecidingMember, LogicalPreview } from "../../store/environments/preview-results.ts";
import { NO_CAUSES } from "../../store/environments/verdict-causes.ts";
import { memoize } from "../../contract/memoize.ts";
import type { ReadingContext } from "../context.ts";
import { MAX_WITH_CAUSES, presentEnvironmentCauses } from "../environments/environment-causes.ts";

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

/** Logical environments of a preview, their failing members with causes: as in a list of environments. */
export function writeMemberCauses(
  { store, organization }: Pick<ReadingContext, "store" | "organization">,
  groups: readonly LogicalPreview[],
) {
  let left = MAX_WITH_CAUSES;
  const causesOf = memoize((id: number) =>
    left-- > 0 ? presentEnvironmentCauses(store, organization.id, { id, members_json: null }) : NO_CAUSES,
  );
  const inWords = (members: readonly DecidingMember[]) =>
    members.map(({ id, isEvaluated, ...member }) => ({
      ...member,
      // Those of a member that the preview evaluated are with its artifacts.
      ...(member.verdict === "NON-COMPLIANT" && !isEvaluated ? causesOf(id) : NO_CAUSES),
    }));
  return groups.map((group) => ({
    ...group,
    deciding_before: inWords(group.deciding_before),
    deciding: inWords(group.deciding),
  }));
}
