/**
 * Applies a plan (apply-file.ts) to the store.
 *
 * Invariants: all checks precede all writes, and the caller runs both in one transaction, so a plan is applied as a
 * whole or not at all; objects that the plan does not name stay untouched; a second run of the same plan writes
 * nothing. A new user always gets the personal organization of the same name (semantics 1.2), even if the plan omits
 * it.
 */
import { keepsAdmin } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import { compareByPosition } from "../../domain/text/source-position.ts";
import type { SourcePosition } from "../../domain/text/source-position.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import type { Store } from "../../store/index.ts";
import type { ApiKeyPlan, ApplyPlan, OrganizationPlan, ServiceAccountPlan, UserPlan } from "./apply-file.ts";
import { escapeLine } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import type { NamedKeyOwner } from "../../changes/changes.ts";
import type { OperatorChanges } from "../operator-changes.ts";
import { newSecret } from "../../clock.ts";

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

/**
 * Applies `plan`; call it inside a transaction. `operation` names the command in the audit log, `now` is epoch seconds.
 * Returns all problems at once as "line L column C: PLACE: PROBLEM", and then has written nothing.
 */
export function applyPlan(
  store: Store,
  plan: ApplyPlan,
  { operation, now }: { operation: string; now: number },
): ApplyResult {
  const problems = findProblems(store, plan, now);
  if (problems.length > 0) return { changes: null, problems };

  const changes: Change[] = [];
  const applying: ApplyContext = {
    store,
    operator: createOperatorChanges(store, operation),
    record: (change) => void changes.push({ detail: null, key: null, ...change }),
  };
  const newUsers = plan.users.filter((user) => store.users.find(user.name) === null);
  applyUsers(applying, plan.users);
  const named = new Set(plan.organizations.map((organization) => organization.name));
  for (const user of newUsers) if (!named.has(user.name)) applyOrganization(applying, personalOrganization(user));
  for (const organization of plan.organizations) applyOrganization(applying, organization);
  for (const user of plan.users) {
    applyKeys(applying, { userId: requireExisting(store.users.find(user.name)).id, name: user.name }, user.apiKeys);
  }
  return { changes, problems: null };
}

type ApplyContext = {
  store: Store;
  operator: OperatorChanges;
  /** Adds a change to the result; `detail` and `key` are null by default. */
  record(change: Omit<Change, "detail" | "key"> & Partial<Change>): void;
};

/** Returns a user's personal organization as a plan with the default settings. */
function personalOrganization({ name, place }: UserPlan): OrganizationPlan {
  return {
    name,
    kind: "personal",
    public: false,
    features: { controls: true },
    members: [],
    serviceAccounts: [],
    place,
  };
}

function applyUsers({ store, operator, record }: ApplyContext, plans: readonly UserPlan[]): void {
  const known = plans.map((plan) => ({ plan, user: store.users.find(plan.name) }));
  // Users of one plan may swap their addresses, which must stay unique after every statement.
  for (const { plan, user } of known) {
    if (user && user.email !== plan.email)
      store.users.updateProfile(user.id, { displayName: user.display_name, email: null });
  }
  for (const { plan, user } of known) {
    const wanted = { displayName: plan.displayName, email: plan.email };
    if (!user) {
      operator.createUser({ name: plan.name, ...wanted });
      record({ kind: "user", name: plan.name, outcome: "created" });
      continue;
    }
    const differences = [
      ...describeDifference("display name", user.display_name, plan.displayName),
      ...describeDifference("e-mail", user.email, plan.email),
    ];
    if (differences.length > 0) operator.describeUser(user, wanted);
    record({ kind: "user", name: plan.name, ...outcomeOf(differences) });
  }
}

function applyOrganization(applying: ApplyContext, plan: OrganizationPlan): void {
  const { store, operator, record } = applying;
  const { name, kind, members } = plan;
  const settings = { isPublic: plan.public, controlsEnabled: plan.features.controls };
  const organization = store.organizations.find(name);
  let id: number;
  if (organization) {
    id = organization.id;
    const differences = [
      ...describeDifference("public", organization.is_public === 1, settings.isPublic),
      ...describeDifference("controls", organization.controls_enabled === 1, settings.controlsEnabled),
    ];
    if (differences.length > 0) operator.configureOrganization(organization, settings);
    record({ kind: "organization", name, ...outcomeOf(differences) });
  } else {
    id = operator.createOrganization({ name, kind, ...settings });
    record({ kind: "organization", name, outcome: "created", detail: kind === "personal" ? "personal" : null });
    // A personal organization always has its user as admin.
    if (kind === "personal" && members.length === 0) applyMember(applying, { id, name }, { user: name, role: "admin" });
  }
  for (const member of members) applyMember(applying, { id, name }, member);
  for (const account of plan.serviceAccounts) applyServiceAccount(applying, { id, name }, account);
}

function applyMember(
  { store, operator, record }: ApplyContext,
  organization: Named,
  member: { user: string; role: Role },
): void {
  const user = requireExisting(store.users.find(member.user));
  const previous = store.organizations.findRole(organization.id, user.id);
  const name = `${organization.name}/${user.name}`;
  if (previous !== member.role) operator.setRole(organization.id, user, { role: member.role, previous });
  if (previous === null) record({ kind: "member", name, outcome: "created", detail: member.role });
  else record({ kind: "member", name, ...outcomeOf(describeDifference("role", previous, member.role)) });
}

function applyServiceAccount(applying: ApplyContext, organization: Named, plan: ServiceAccountPlan): void {
  const { store, operator, record } = applying;
  const name = `${organization.name}/${plan.name}`;
  const account = store.serviceAccounts.find(organization.id, plan.name);
  const { privilege } = plan;
  const id = account?.id ?? operator.createServiceAccount(organization.id, { name: plan.name, privilege });
  if (account) {
    const differences = describeDifference("privilege", account.privilege, plan.privilege);
    if (differences.length > 0) operator.setPrivilege(account, plan.privilege);
    record({ kind: "service_account", name, ...outcomeOf(differences) });
  } else record({ kind: "service_account", name, outcome: "created", detail: plan.privilege });
  applyKeys(applying, { serviceAccountId: id, organizationId: organization.id, name }, plan.apiKeys);
}

function applyKeys(
  { store, operator, record }: ApplyContext,
  owner: NamedKeyOwner,
  plans: readonly ApiKeyPlan[],
): void {
  for (const { description, key, expiresAt } of plans) {
    const known = key === null ? findLiveKey(store, owner, description) : store.apiKeys.find(keyDigest(key));
    if (known) {
      const differs = known.description !== description || known.expires_at !== expiresAt;
      const detail = differs ? `${description}; description and expiry of an existing key never change` : description;
      record({ kind: "api_key", name: owner.name, outcome: "unchanged", detail });
    } else {
      const minted = key === null ? newSecret() : null;
      operator.createKey(owner, { key: key ?? (minted as string), description, expiresAt });
      record({ kind: "api_key", name: owner.name, outcome: "created", detail: description, key: minted });
    }
  }
}

const findLiveKey = (store: Store, owner: NamedKeyOwner, description: string) =>
  store.apiKeys.listByOwner(owner).find((key) => key.description === description && store.apiKeys.isActive(key)) ??
  null;

type Named = { id: number; name: string };

/** Returns the difference as one line, or no line if the values are equal. */
function describeDifference(what: string, from: string | boolean | null, to: string | boolean | null): string[] {
  const shown = (value: string | boolean | null): string => (value === null || value === "" ? "none" : String(value));
  return from === to ? [] : [`${what} ${shown(from)} -> ${shown(to)}`];
}

const outcomeOf = (differences: readonly string[]): Pick<Change, "outcome" | "detail"> =>
  differences.length > 0
    ? { outcome: "changed", detail: differences.join(", ") }
    : { outcome: "unchanged", detail: null };

/** Asserts the result of a lookup that the checks of the plan have already made. */
function requireExisting<T>(found: T | null): T {
  if (found === null) throw new Error("the plan refers to an object that its checks did not find missing");
  return found;
}

/** `users` holds the names of the users in the plan. */
type CheckContext = {
  store: Store;
  users: ReadonlySet<string>;
  now: number;
  refuse(place: SourcePosition, problem: string): void;
};

/** Finds everything that prevents the plan from being applied to this store, in file order. */
function findProblems(store: Store, plan: ApplyPlan, now: number): string[] {
  const problems: { place: SourcePosition; text: string }[] = [];
  const users = new Set(plan.users.map((user) => user.name));
  const checking: CheckContext = { store, users, now, refuse: (place, text) => void problems.push({ place, text }) };
  for (const [index, organization] of plan.organizations.entries())
    checkOrganization(checking, organization, `organizations[${index}]`);
  for (const [index, user] of plan.users.entries()) checkUser(checking, user, `users[${index}]`);
  return problems
    .sort((a, b) => compareByPosition(a.place, b.place))
    .map(({ place, text }) => `line ${place.line} column ${place.column}: ${text}`);
}

function checkOrganization(checking: CheckContext, organization: OrganizationPlan, where: string): void {
  const { store, users, refuse } = checking;
  const { name, kind, place } = organization;
  const isUser = (user: string): boolean => users.has(user) || store.users.find(user) !== null;
  const found = store.organizations.find(name);
  if (found && found.kind !== kind) {
    refuse(place, `${where}.kind: "${name}" is a ${found.kind} organization, and its kind cannot change`);
  } else if (!found && kind === "shared" && store.users.find(name)) {
    refuse(place, `${where}: "${name}" is the name of a user and reserved for their personal organization`);
  } else if (!found && kind === "personal" && !isUser(name)) {
    refuse(place, `${where}: a personal organization has the name of its user, and there is no user "${name}"`);
  }
  organization.members.forEach((member, index) => {
    if (isUser(member.user)) return;
    refuse(
      member.place,
      `${where}.members[${index}]: there is no user "${member.user}" in this file or in the database`,
    );
  });
  if (
    found &&
    kind === "shared" &&
    !keepsAdmin(
      store.organizations.listMembers(found.id),
      new Map(organization.members.map(({ user, role }) => [user, role])),
    )
  ) {
    refuse(
      place,
      `${where}.members: this would leave "${name}" without an admin; assay member set-role --force does that`,
    );
  }
  organization.serviceAccounts.forEach((account, index) => {
    const known = found && store.serviceAccounts.find(found.id, account.name);
    checkKeys(checking, account.apiKeys, {
      owner: known ? { serviceAccountId: known.id } : null,
      where: `${where}.service_accounts[${index}]`,
    });
  });
}

function checkUser(checking: CheckContext, user: UserPlan, where: string): void {
  const { store, users, refuse } = checking;
  const known = store.users.find(user.name);
  if (!known && store.organizations.find(user.name)?.kind === "shared") {
    refuse(
      user.place,
      `${where}: "${user.name}" is the name of a shared organization, ` +
        "so the personal organization of this user cannot have it",
    );
  }
  const holder = user.email === null ? null : store.users.findByEmail(user.email);
  // A holder that is also in the plan gives the address up; apply-file.ts has refused two users with the same address.
  if (holder && holder.name !== user.name && !users.has(holder.name)) {
    refuse(user.place, `${where}.email: ${JSON.stringify(user.email)} already belongs to user "${holder.name}"`);
  }
  checkKeys(checking, user.apiKeys, { owner: known ? { userId: known.id } : null, where });
}

/** `owner` is null if it does not exist yet. */
function checkKeys(
  checking: CheckContext,
  keys: readonly ApiKeyPlan[],
  { owner, where }: { owner: { userId: number } | { serviceAccountId: number } | null; where: string },
): void {
  const { store, now, refuse } = checking;
  keys.forEach(({ key, expiresAt, place }, index) => {
    const here = `${where}.api_keys[${index}]`;
    const known = key === null ? null : store.apiKeys.find(keyDigest(key));
    if (!known) {
      if (expiresAt !== 0 && expiresAt <= now) refuse(place, `${here}.expires_at: ${expiresAt} is in the past`);
      return;
    }
    const isOwn =
      owner !== null &&
      ("userId" in owner ? known.user_id === owner.userId : known.service_account_id === owner.serviceAccountId);
    if (!isOwn) refuse(place, `${here}.key: this key belongs to another owner, give a different one`);
    else if (known.revoked_at !== null && !store.apiKeys.hasLapsed(known))
      refuse(place, `${here}.key: this key was revoked, give a new one`);
    else if (!store.apiKeys.isActive(known)) refuse(place, `${here}.key: this key has expired, give a new one`);
  });
}

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
