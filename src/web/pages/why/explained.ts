/** What the operations for explanations answer, in the parts that pages show. */
import type { explainSnapshot } from "../../../api/environments/explanations.ts";
import type { explainTrail } from "../../../api/flows/trail-explanations.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { isInForce } from "../../components/rule-counts.ts";

export type SnapshotAnswer = AnswerOf<typeof explainSnapshot>;
export type Artifact = SnapshotAnswer["snapshot"]["artifacts"][number];
export type Verdict = Artifact["policies"][number];
export type ExplainedRule = NonNullable<Verdict["rules"]>[number];
export type ShownResolution = ExplainedRule["resolutions"][number];
export type Condition = ExplainedRule["conditions"][number];
export type ShownFlow = Artifact["flows"][number];
export type Attestation = ShownFlow["attestations"][number];
export type ShownCause = Artifact["causes"][number];
export type Remedy = ExplainedRule["satisfied_by"][number];
export type TrailAnswer = AnswerOf<typeof explainTrail>;
export type Expectation = TrailAnswer["attestations"][number];
export type TrailArtifact = TrailAnswer["artifacts"][number];
export type Lines = NonNullable<ExplainedRule["lines"]>;

type Snapshot = SnapshotAnswer["snapshot"];
/** An artifact and the snapshot that it is in: of a logical environment, the one of the member. */
export type ShownArtifact = {
  artifact: Artifact;
  at: Pick<Snapshot, "environment" | "index" | "timestamp" | "policies">;
};

const rankOf = ({ artifact: { exited, compliant } }: ShownArtifact): number =>
  exited ? 3 : compliant === false ? 0 : compliant === null ? 1 : 2;

/** The artifacts of an explanation, those of members included: what runs and fails first. */
export function subjectsOf({ snapshot }: SnapshotAnswer): ShownArtifact[] {
  const all = [snapshot, ...snapshot.members].flatMap((at) => at.artifacts.map((artifact) => ({ artifact, at })));
  return all.sort((a, b) => rankOf(a) - rankOf(b));
}

/** The rules of a policy that demand anything; null where the answer has no room for them. */
export const rulesOf = ({ rules }: Verdict): ExplainedRule[] | null => rules?.filter(isInForce) ?? null;

const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** `two causes`. */
export const counted = (number: number, word: string): string =>
  `${NUMBERS[number] ?? number.toLocaleString("en-US")} ${number === 1 ? word : `${word}s`}`;

export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const article = (word: string): string => (/^[aeiou]/i.test(word) ? "an" : "a");
