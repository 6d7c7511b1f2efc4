/** What turned an environment with one of its snapshots, in words. */
import type { compareSnapshots } from "../../../api/environments/snapshot-diff.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { plural, stateOfVerdict, stateWord } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

type Turn = NonNullable<AnswerOf<typeof compareSnapshots>["turned"]>;

export const wordOfVerdict = (compliant: boolean | null): string => stateWord(stateOfVerdict(compliant)).toLowerCase();

/** `with policy prod-baseline v7 attached by Sefa Duty`, `with the upgrade of backend-api to 2.41.0`. */
export function causeOfTurn(visit: Visit, turn: Turn): Value {
  const { cause, environment_name: member } = turn;
  const ofPolicies = policyWords(visit, turn);
  const ofArtifacts = artifactWords(turn);
  const ofOther =
    cause === "allowlist" ? html`with a change of the allowlist${by(turn)}` : html`with a report${by(turn)}`;
  const words =
    cause === "report" ? (ofArtifacts ?? ofPolicies) : (ofPolicies ?? (cause === "allowlist" ? null : ofArtifacts));
  return html`${words ?? ofOther}${member !== null && html` in <bdi>${member}</bdi>`}`;
}

const by = ({ user_name: user }: Pick<Turn, "user_name">): Html | null =>
  user === "" ? null : html` by <bdi>${user}</bdi>`;

/** Who changed the policies; a reporter only made the snapshot in which a change counts for the first time. */
export const byWhom = (turn: Pick<Turn, "cause" | "user_name">): Html | null =>
  turn.cause === "report" && turn.user_name !== "" ? html` with a report of <bdi>${turn.user_name}</bdi>` : by(turn);

const andMore = (all: number): string => (all > 1 ? ` and ${plural(all - 1, "more change")}` : "");

function policyWords({ to }: Visit, turn: Turn): Html | null {
  const [policy] = turn.policies;
  if (!policy) return null;
  const { name, change, before, after } = policy;
  const verb = { attached: `v${after} attached`, detached: "detached", changed: `v${after} in place of v${before}` };
  return html`with policy <a href="${to.policy(name)}"><bdi>${name}</bdi></a> ${verb[change]}${byWhom(turn)}${andMore(
    turn.policies.length,
  )}`;
}

function artifactWords({ upgrades, started, exited, reevaluated }: Turn): Html | null {
  const all = upgrades.length + started.length + exited.length + reevaluated.length;
  const [upgrade] = upgrades;
  if (upgrade)
    return html`with the upgrade of <bdi>${upgrade.service}</bdi> to <bdi>${upgrade.after}</bdi>${andMore(all)}`;
  if (started[0] !== undefined) return html`when <bdi>${started[0]}</bdi> started${andMore(all)}`;
  if (exited[0] !== undefined) return html`when <bdi>${exited[0]}</bdi> exited${andMore(all)}`;
  return reevaluated[0] === undefined ? null : html`when <bdi>${reevaluated[0]}</bdi> turned${andMore(all)}`;
}
