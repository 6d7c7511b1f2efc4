/** Policies and the control that were in force in the period of a binder, and where a control was required. */
import { createHash } from "node:crypto";
import { isNumberList, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { ControlRuleRow, RuleVersionRow } from "../../store/environments/history/binders.ts";
import { snapshotRange } from "./scope.ts";
import type { Binder } from "./scope.ts";
import type { RuleValue } from "./shapes.ts";

export type InForce = {
  /** The environments whose policies are the rules of the binder, by their ids. */
  environments: ReadonlySet<number>;
  policies: RuleVersionRow[];
  control: ControlRuleRow[];
};

/**
 * Attaching a policy makes a snapshot, so the snapshots name every policy that was attached; a new version of one makes
 * a snapshot only where a verdict turns, so versions follow from when they were saved.
 * @param startedIn for a flow: the environments in which its artifacts started
 */
export function gatherRules(binder: Binder, startedIn: ReadonlySet<number>): InForce {
  const { context, scope, places } = binder;
  const { binders } = context.store;
  const { subject } = scope;
  const wanted =
    subject.kind === "control" ? new Set(binders.listPoliciesOf(binders.listVersionsOf(subject.id))) : null;
  const environments = new Set<number>();
  const policyIds = new Set<number>();
  for (const { id } of places) {
    const range = subject.kind === "flow" && !startedIn.has(id) ? null : snapshotRange(binder, id);
    if (range === null) continue;
    const versions = binders
      .listEvaluatedVersions(id, range.first, range.last)
      .flatMap((text) => readStoredJsonOrNull(text, isNumberList) ?? []);
    const relevant = binders
      .listPoliciesOf(new Set(versions))
      .filter((policy) => wanted === null || wanted.has(policy));
    if (relevant.length > 0 || subject.kind === "environment") environments.add(id);
    for (const policy of relevant) policyIds.add(policy);
  }
  return {
    environments,
    policies: binders.listRuleVersions([...policyIds], scope),
    control: subject.kind === "control" ? binders.listControlRules(subject.id, scope) : [],
  };
}

/** Policies by name, then the control; the newest version first. */
export function* presentRules({ context, scope }: Binder, { policies, control }: InForce): Generator<RuleValue> {
  const { store, urls, organization } = context;
  const { subject } = scope;
  for (const { id, name, version, comment, created_by: by, timestamp: since, replaced_at: until } of policies) {
    const text = store.auditPackages.findPolicyVersion(id)?.policy_yaml ?? "";
    const sha256 = createHash("sha256").update(text).digest("hex");
    const html_url = urls.policyPage(organization.name, name);
    yield { kind: "policy", name, version, since, until, by, comment, sha256, html_url };
  }
  if (subject.kind !== "control") return;
  for (const { version, status: comment, created_by: by, timestamp: since, replaced_at: until } of control) {
    const html_url = urls.controlPage(organization.name, subject.identifier);
    yield { kind: "control", name: subject.identifier, version, since, until, by, comment, sha256: null, html_url };
  }
}
