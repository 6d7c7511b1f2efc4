/**
 * Applies a plan (apply-file.ts): compares it with what there is, and calls the operations that make the difference.
 *
 * Invariants: the caller runs it in one transaction and rolls back if there is a problem, so a plan is applied as a
 * whole or not at all; a refused call does not end the plan, so that one run reports all problems; objects that the
 * plan does not name stay untouched; a second run of the same plan writes nothing. A new user always gets the personal
 * organization of the same name (semantics 1.2), even if the plan omits it.
 */
import { createApiKey } from "../../api/accounts/api-keys.ts";
import { putMember } from "../../api/accounts/members.ts";
import { updateOrganizationSettings } from "../../api/accounts/organizations.ts";
import { createServiceAccount, updateServiceAccount } from "../../api/accounts/service-accounts.ts";
import { createOrganization } from "../../api/operator/organizations.ts";
import { createApiKeyOfUser, importApiKey } from "../../api/operator/user-api-keys.ts";
import { createUser, updateUser } from "../../api/operator/users.ts";
import { compareByPosition } from "../../domain/text/source-position.ts";
import type { SourcePosition } from "../../domain/text/source-position.ts";
import { AppError } from "../../errors.ts";
import type { KeyOwner } from "../../store/accounts/api-keys.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import type { ApiKeyPlan, ApplyPlan, OrganizationPlan, ServiceAccountPlan, UserPlan } from "./apply-file.ts";
import { escapeLine } from "../framework.ts";
import type { Operator } from "../operator.ts";

/** One object of the plan and its outcome. */
export type Change = {
  kind: "organization" | "user" | "member" | "service_account" | "api_key";
  /** acme, ops, acme/ops (member), acme/ci-bot; for a key, the name of its owner. */
  name: string;
  outcome: "created" | "changed" | "unchanged";
  detail: string | null;
  /** The value of a generated key, shown only here; otherwise null. */
  key: string | null;
};

type ApplyResult = { changes: Change[]; problems: null } | { changes: null; problems: string[] };

/** Where an entry is in the file: its position, and its name as organizations[0].members[1]. */
type EntryPlace = { place: SourcePosition; where: string };

type ApplyContext = Pick<Operator, "call" | "store"> & {
  /** Adds a change to the result; `detail` and `key` are null by default. */
  record(change: Omit<Change, "detail" | "key"> & Partial<Change>): void;
  refuse(at: EntryPlace, problem: string): void;
  /** The answer of a call; null if it was refused, which is noted as a problem. */
  attempt<T>(at: EntryPlace, call: () => Promise<T>): Promise<T | null>;
  /** Users whom this plan created. */
  newUsers: Set<string>;
  /** Users whom it could not create: what depends on them is not reported again. */
  refusedUsers: Set<string>;
};

/**
 * Applies `plan`; call it inside a transaction. Returns all problems at once as "line L column C: PLACE: PROBLEM"; the
 * caller then rolls back what was written before them.
 */
export async function applyPlan(
  { call, store }: Pick<Operator, "call" | "store">,
  plan: ApplyPlan,
): Promise<ApplyResult> {
  const changes: Change[] = [];
  const problems: { place: SourcePosition; text: string }[] = [];
  const refuse = ({ place, where }: EntryPlace, problem: string): void =>
    void problems.push({ place, text: `${where}${problem}` });
  const applying: ApplyContext = {
    call,
    store,
    newUsers: new Set(),
    refusedUsers: new Set(),
    record: (change) => void changes.push({ detail: null, key: null, ...change }),
    refuse,
    async attempt(at, attempted) {
      try {
        return await attempted();
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        for (const [field, text] of Object.entries(error.fields ?? { "": error.message }))
          refuse(at, `${field === "" ? "" : `.${field}`}: ${text}`);
        return null;
      }
    },
  };
  await applyUsers(applying, plan.users);
  const named = new Set(plan.organizations.map((organization) => organization.name));
  for (const name of applying.newUsers) if (!named.has(name)) recordPersonal(applying, name);
  for (const [index, organization] of plan.organizations.entries())
    await applyOrganization(applying, organization, `organizations[${index}]`);
  for (const [index, user] of plan.users.entries()) {
    const row = store.users.find(user.name);
    const owner = { id: row && { userId: row.id }, name: user.name, params: { user: user.name } };
    await applyKeys(applying, owner, { plans: user.apiKeys, where: `users[${index}]` });
  }
  if (problems.length === 0) return { changes, problems: null };
  const sorted = problems.sort((a, b) => compareByPosition(a.place, b.place));
  return {
    changes: null,
    problems: sorted.map(({ place, text }) => `line ${place.line} column ${place.column}: ${text}`),
  };
}

async function applyUsers(applying: ApplyContext, plans: readonly UserPlan[]): Promise<void> {
  const { call, store, record, attempt, newUsers, refusedUsers } = applying;
  const known = plans.map((plan) => ({ plan, user: store.users.find(plan.name) }));
  const wanted = new Map(plans.map(({ name, email }) => [email?.toLowerCase(), name]));
  // Users of one plan may swap their addresses, which must stay unique after every change.
  for (const { plan, user } of known) {
    const next = user?.email ? wanted.get(user.email.toLowerCase()) : undefined;
    if (next !== undefined && next !== plan.name)
      await call(updateUser, { params: { user: plan.name }, body: { email: null } });
  }
  for (const [index, { plan, user }] of known.entries()) {
    const at = { place: plan.place, where: `users[${index}]` };
    const { name, displayName: display_name, email } = plan;
    if (!user) {
      if (await attempt(at, () => call(createUser, { body: { name, display_name, email } }))) {
        newUsers.add(name);
        record({ kind: "user", name, outcome: "created" });
      } else refusedUsers.add(name);
      continue;
    }
    const differences = [
      ...describeDifference("display name", user.display_name, display_name),
      ...describeDifference("e-mail", user.email, email),
    ];
    if (differences.length > 0)
      await attempt(at, () => call(updateUser, { params: { user: name }, body: { display_name, email } }));
    record({ kind: "user", name, ...outcomeOf(differences) });
  }
}

/** Records the personal organization of a new user, which was created with them. */
function recordPersonal({ record }: ApplyContext, name: string): void {
  record({ kind: "organization", name, outcome: "created", detail: "personal" });
  record({ kind: "member", name: `${name}/${name}`, outcome: "created", detail: "admin" });
}

async function applyOrganization(applying: ApplyContext, plan: OrganizationPlan, where: string): Promise<void> {
  const { call, store, record, refuse, attempt, newUsers } = applying;
  const { name, kind } = plan;
  const at = { place: plan.place, where };
  const settings = { is_public: plan.public, controls_enabled: plan.features.controls };
  const found = store.organizations.find(name);
  if (found && found.kind !== kind)
    return refuse(at, `.kind: "${name}" is a ${found.kind} organization, and its kind cannot change`);
  if (!found && kind === "personal")
    return refuse(at, `: a personal organization has the name of its user, and there is no user "${name}"`);
  if (!found) {
    if (!(await attempt(at, () => call(createOrganization, { body: { name, ...settings } })))) return;
    record({ kind: "organization", name, outcome: "created" });
  } else {
    const differences = [
      ...describeDifference("public", found.is_public === 1, settings.is_public),
      ...describeDifference("controls", found.controls_enabled === 1, settings.controls_enabled),
    ];
    if (differences.length > 0)
      await attempt(at, () => call(updateOrganizationSettings, { params: { org: name }, body: settings }));
    if (kind === "personal" && newUsers.has(name)) recordPersonal(applying, name);
    else record({ kind: "organization", name, ...outcomeOf(differences) });
  }
  const organization = store.organizations.find(name) as OrganizationRow;
  await applyMembers(applying, organization, { plan, where });
  for (const [index, account] of plan.serviceAccounts.entries())
    await applyServiceAccount(applying, organization, { plan: account, where: `${where}.service_accounts[${index}]` });
}

async function applyMembers(
  { call, store, record, attempt, newUsers, refusedUsers }: ApplyContext,
  organization: OrganizationRow,
  { plan, where }: { plan: OrganizationPlan; where: string },
): Promise<void> {
  const org = organization.name;
  const members = plan.members.map((member, index) => {
    const user = store.users.find(member.user);
    const previous = user && store.organizations.findRole(organization.id, user.id);
    return { ...member, where: `${where}.members[${index}]`, previous };
  });
  const changed = members.filter(({ user, role, previous }) => role !== previous && !refusedUsers.has(user));
  // New admins first: one file may hand the role over.
  for (const member of [...changed].sort((a, b) => Number(b.role === "admin") - Number(a.role === "admin")))
    await attempt(member, () => call(putMember, { params: { org, user: member.user }, body: { role: member.role } }));
  for (const { user, role, previous } of members) {
    const name = `${org}/${user}`;
    if (previous === null) record({ kind: "member", name, outcome: "created", detail: role });
    else if (!(organization.kind === "personal" && newUsers.has(user)))
      record({ kind: "member", name, ...outcomeOf(describeDifference("role", previous, role)) });
  }
}

async function applyServiceAccount(
  applying: ApplyContext,
  organization: OrganizationRow,
  { plan, where }: { plan: ServiceAccountPlan; where: string },
): Promise<void> {
  const { call, store, record, attempt } = applying;
  const { name, privilege } = plan;
  const [org, shown, at] = [organization.name, `${organization.name}/${name}`, { place: plan.place, where }];
  const account = store.serviceAccounts.find(organization.id, name);
  if (account) {
    const differences = describeDifference("privilege", account.privilege, privilege);
    if (differences.length > 0)
      await attempt(at, () => call(updateServiceAccount, { params: { org, name }, body: { privilege } }));
    record({ kind: "service_account", name: shown, ...outcomeOf(differences) });
  } else {
    if (!(await attempt(at, () => call(createServiceAccount, { params: { org }, body: { name, privilege } })))) return;
    record({ kind: "service_account", name: shown, outcome: "created", detail: privilege });
  }
  const row = store.serviceAccounts.find(organization.id, name);
  const owner = { id: row && { serviceAccountId: row.id }, name: shown, params: { org, name } };
  await applyKeys(applying, owner, { plans: plan.apiKeys, where });
}

/** Who has keys: `id` in the store, null if it could not be created; `params` as operations name it. */
type Owner = { id: KeyOwner | null; name: string; params: { user: string } | { org: string; name: string } };

async function applyKeys(
  { call, store, record, attempt }: ApplyContext,
  { id: owner, name, params }: Owner,
  { plans, where }: { plans: readonly ApiKeyPlan[]; where: string },
): Promise<void> {
  if (owner === null) return;
  for (const [index, { description, key, expiresAt, place }] of plans.entries()) {
    const at = { place, where: `${where}.api_keys[${index}]` };
    const body = { description, expires_at: expiresAt };
    const known = key === null ? findLiveKey(store, owner, description) : null;
    if (known) recordKnown(known);
    else if (key === null) {
      const item = await attempt(at, () =>
        "user" in params ? call(createApiKeyOfUser, { params, body }) : call(createApiKey, { params, body }),
      );
      record({ kind: "api_key", name, outcome: "created", detail: description, key: item?.key ?? null });
    } else {
      const owners = "user" in params ? params : { org: params.org, service_account: params.name };
      const item = await attempt(at, () => call(importApiKey, { body: { ...body, ...owners, key } }));
      if (item?.created === false) recordKnown(item);
      else record({ kind: "api_key", name, outcome: "created", detail: description });
    }

    function recordKnown(has: { description: string; expires_at: number }): void {
      const differs = has.description !== description || has.expires_at !== expiresAt;
      const detail = differs ? `${description}; description and expiry of an existing key never change` : description;
      record({ kind: "api_key", name, outcome: "unchanged", detail });
    }
  }
}

const findLiveKey = (store: Operator["store"], owner: KeyOwner, description: string) =>
  store.apiKeys.listByOwner(owner).find((key) => key.description === description && store.apiKeys.isActive(key)) ??
  null;

/** Returns the difference as one line, or no line if the values are equal. */
function describeDifference(what: string, from: string | boolean | null, to: string | boolean | null): string[] {
  const shown = (value: string | boolean | null): string => (value === null || value === "" ? "none" : String(value));
  return from === to ? [] : [`${what} ${shown(from)} -> ${shown(to)}`];
}

const outcomeOf = (differences: readonly string[]): Pick<Change, "outcome" | "detail"> =>
  differences.length > 0
    ? { outcome: "changed", detail: differences.join(", ") }
    : { outcome: "unchanged", detail: null };

/** Renders the changes for people, one line each; a generated key follows the line of its change. */
export function describeChanges(changes: readonly Change[]): string {
  return changes
    .map(({ kind, name, outcome, detail, key }) => {
      const object = kind === "api_key" ? "API key of" : kind.replace("_", " ");
      const line = `${outcome.padEnd(9)}  ${object} ${name}${detail === null ? "" : `: ${escapeLine(detail)}`}\n`;
      return key === null ? line : `${line}           ${key}\n`;
    })
    .join("");
}
