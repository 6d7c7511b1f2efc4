/**
 * Applies a plan (apply-file.ts) to the store.
 *
 * Invariants: everything is checked before anything is written, and the caller runs both in one transaction, so a plan
 * is applied whole or not at all; what the plan does not name is not touched; a second run of the same plan writes
 * nothing. A user is born with the personal organization that bears their name (semantics 1.2), also where the plan
 * leaves it out.
 */
import { newSecret } from "../../server/app.ts";
import { keepsAdmin } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import { byPlace } from "../../domain/text/yaml.ts";
import type { SourcePosition } from "../../domain/text/yaml.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import type { Store } from "../../store/index.ts";
import type { ApiKeyPlan, ApplyPlan, OrganizationPlan, ServiceAccountPlan, UserPlan } from "./apply-file.ts";
import { oneLine } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import type { Operator, Owner } from "../operator-changes.ts";

/** One object of the plan and what became of it. */
export type Change = {
  kind: "organization" | "user" | "member" | "service_account" | "api_key";
  /** acme, ops, acme/ops (member), acme/ci-bot; of a key its owner's. */
  name: string;
  outcome: "created" | "changed" | "unchanged";
  /** What there is to say about it in words, null for nothing. */
  detail: string | null;
  /** The text of a key that was minted, which is shown this once; null for everything else. */
  key: string | null;
};

export type ApplyResult = { changes: Change[]; problems: null } | { changes: null; problems: string[] };

/**
 * Applies `plan`; to be called inside a transaction. `operation` names the command in the audit log, `now` is epoch
 * seconds. Problems are told all at once as "line L column C: PLACE: what is wrong", and then nothing was written.
 */
export function applyPlan(store: Store, plan: ApplyPlan, operation: string, now: number): ApplyResult {
  const problems = findProblems(store, plan, now);
  if (problems.length > 0) return { changes: null, problems };

  const changes: Change[] = [];
  const applying: Applying = {
    store,
    operator: operatorOf(store, operation),
    tell: (kind, name, outcome, detail = null, key = null) => void changes.push({ kind, name, outcome, detail, key }),
  };
  const newUsers = plan.users.filter((user) => store.users.find(user.name) === null);
  applyUsers(applying, plan.users);
  const named = new Set(plan.organizations.map((organization) => organization.name));
  for (const user of newUsers) if (!named.has(user.name)) applyOrganization(applying, personalOrganization(user));
  for (const organization of plan.organizations) applyOrganization(applying, organization);
  for (const user of plan.users) {
    applyKeys(applying, { userId: existing(store.users.find(user.name)).id, name: user.name }, user.apiKeys);
  }
  return { changes, problems: null };
}

type Applying = {
  store: Store;
  operator: Operator;
  tell(
    kind: Change["kind"],
    name: string,
    outcome: Change["outcome"],
    detail?: string | null,
    key?: string | null,
  ): void;
};

/** The personal organization of a user, as a plan that names it with its defaults. */
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

function applyUsers({ store, operator, tell }: Applying, plans: readonly UserPlan[]): void {
  const known = plans.map((plan) => ({ plan, user: store.users.find(plan.name) }));
  // Users of one plan may swap addresses, and an address is unique at every moment.
  for (const { plan, user } of known) {
    if (user && user.email !== plan.email)
      store.users.updateProfile(user.id, { displayName: user.display_name, email: null });
  }
  for (const { plan, user } of known) {
    const wanted = { displayName: plan.displayName, email: plan.email };
    if (!user) {
      operator.createUser({ name: plan.name, ...wanted });
      tell("user", plan.name, "created");
      continue;
    }
    const differences = [
      ...difference("display name", user.display_name, plan.displayName),
      ...difference("e-mail", user.email, plan.email),
    ];
    if (differences.length > 0) operator.describeUser(user, wanted);
    tell("user", plan.name, ...outcomeOf(differences));
  }
}

function applyOrganization(applying: Applying, plan: OrganizationPlan): void {
  const { store, operator, tell } = applying;
  const { name, kind, members } = plan;
  const settings = { isPublic: plan.public, controlsEnabled: plan.features.controls };
  const organization = store.organizations.find(name);
  let id: number;
  if (organization) {
    id = organization.id;
    const differences = [
      ...difference("public", organization.is_public === 1, settings.isPublic),
      ...difference("controls", organization.controls_enabled === 1, settings.controlsEnabled),
    ];
    if (differences.length > 0) operator.configureOrganization(organization, settings);
    tell("organization", name, ...outcomeOf(differences));
  } else {
    id = operator.createOrganization({ name, kind, ...settings });
    tell("organization", name, "created", kind === "personal" ? "personal" : null);
    // Its user is what a personal organization is for.
    if (kind === "personal" && members.length === 0) applyMember(applying, { id, name }, { user: name, role: "admin" });
  }
  for (const member of members) applyMember(applying, { id, name }, member);
  for (const account of plan.serviceAccounts) applyServiceAccount(applying, { id, name }, account);
}

function applyMember(
  { store, operator, tell }: Applying,
  organization: Named,
  member: { user: string; role: Role },
): void {
  const user = existing(store.users.find(member.user));
  const previous = store.organizations.findRole(organization.id, user.id);
  const name = `${organization.name}/${user.name}`;
  if (previous !== member.role) operator.setRole(organization.id, user, member.role, previous);
  if (previous === null) tell("member", name, "created", member.role);
  else tell("member", name, ...outcomeOf(difference("role", previous, member.role)));
}

function applyServiceAccount(applying: Applying, organization: Named, plan: ServiceAccountPlan): void {
  const { store, operator, tell } = applying;
  const name = `${organization.name}/${plan.name}`;
  const account = store.serviceAccounts.find(organization.id, plan.name);
  const { privilege } = plan;
  const id = account?.id ?? operator.createServiceAccount(organization.id, { name: plan.name, privilege });
  if (account) {
    const differences = difference("privilege", account.privilege, plan.privilege);
    if (differences.length > 0) operator.setPrivilege(account, plan.privilege);
    tell("service_account", name, ...outcomeOf(differences));
  } else tell("service_account", name, "created", plan.privilege);
  applyKeys(applying, { serviceAccountId: id, organizationId: organization.id, name }, plan.apiKeys);
}

function applyKeys({ store, operator, tell }: Applying, owner: Owner, plans: readonly ApiKeyPlan[]): void {
  for (const { description, key, expiresAt } of plans) {
    const known = key === null ? liveKey(store, owner, description) : store.apiKeys.find(keyDigest(key));
    if (known) {
      const kept = known.description !== description || known.expires_at !== expiresAt;
      tell(
        "api_key",
        owner.name,
        "unchanged",
        kept ? `${description}; a key keeps the description and expiry it was made with` : description,
      );
    } else {
      const minted = key === null ? newSecret() : null;
      operator.createKey(owner, { key: key ?? (minted as string), description, expiresAt });
      tell("api_key", owner.name, "created", description, minted);
    }
  }
}

const liveKey = (store: Store, owner: Owner, description: string) =>
  store.apiKeys.listByOwner(owner).find((key) => key.description === description && store.apiKeys.isActive(key)) ??
  null;

type Named = { id: number; name: string };

/** What differs as a text, none where nothing does. */
function difference(what: string, from: string | boolean | null, to: string | boolean | null): string[] {
  const shown = (value: string | boolean | null): string => (value === null || value === "" ? "none" : String(value));
  return from === to ? [] : [`${what} ${shown(from)} -> ${shown(to)}`];
}

const outcomeOf = (differences: readonly string[]): ["changed" | "unchanged", string | null] =>
  differences.length > 0 ? ["changed", differences.join(", ")] : ["unchanged", null];

/** What was checked to be there. */
function existing<T>(found: T | null): T {
  if (found === null) throw new Error("the checks of the plan let something pass that does not exist");
  return found;
}

/** `users` are the names of the users in the plan. */
type Checking = {
  store: Store;
  users: ReadonlySet<string>;
  now: number;
  refuse(place: SourcePosition, problem: string): void;
};

/** What keeps the plan from being applied to this store, in the order of the file. */
function findProblems(store: Store, plan: ApplyPlan, now: number): string[] {
  const problems: { place: SourcePosition; text: string }[] = [];
  const users = new Set(plan.users.map((user) => user.name));
  const checking: Checking = { store, users, now, refuse: (place, text) => void problems.push({ place, text }) };
  plan.organizations.forEach((organization, index) =>
    checkOrganization(checking, organization, `organizations[${index}]`),
  );
  plan.users.forEach((user, index) => checkUser(checking, user, `users[${index}]`));
  return problems
    .sort((a, b) => byPlace(a.place, b.place))
    .map(({ place, text }) => `line ${place.line} column ${place.column}: ${text}`);
}

function checkOrganization(checking: Checking, organization: OrganizationPlan, where: string): void {
  const { store, users, refuse } = checking;
  const { name, kind, place } = organization;
  const isUser = (user: string): boolean => users.has(user) || store.users.find(user) !== null;
  const found = store.organizations.find(name);
  if (found && found.kind !== kind) {
    refuse(place, `${where}.kind: "${name}" is a ${found.kind} organization, and a kind cannot change`);
  } else if (!found && kind === "shared" && store.users.find(name)) {
    refuse(place, `${where}: "${name}" is a user, whose personal organization bears that name`);
  } else if (!found && kind === "personal" && !isUser(name)) {
    refuse(place, `${where}: a personal organization bears the name of its user, and there is no user "${name}"`);
  }
  organization.members.forEach((member, index) => {
    if (isUser(member.user)) return;
    refuse(
      member.place,
      `${where}.members[${index}]: there is no user "${member.user}", neither in this file nor in the database`,
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
    checkKeys(
      checking,
      account.apiKeys,
      known ? { serviceAccountId: known.id } : null,
      `${where}.service_accounts[${index}]`,
    );
  });
}

function checkUser(checking: Checking, user: UserPlan, where: string): void {
  const { store, users, refuse } = checking;
  const known = store.users.find(user.name);
  if (!known && store.organizations.find(user.name)?.kind === "shared") {
    refuse(
      user.place,
      `${where}: "${user.name}" is a shared organization, so no personal organization of this user can bear the name`,
    );
  }
  const holder = user.email === null ? null : store.users.findByEmail(user.email);
  // Somebody whose address this plan changes too gives it up; that two of the plan want the same was refused by the
  // reader.
  if (holder && holder.name !== user.name && !users.has(holder.name)) {
    refuse(user.place, `${where}.email: ${JSON.stringify(user.email)} is the address of user "${holder.name}" already`);
  }
  checkKeys(checking, user.apiKeys, known ? { userId: known.id } : null, where);
}

/** `owner` is null for somebody who is yet to be created. */
function checkKeys(
  checking: Checking,
  keys: readonly ApiKeyPlan[],
  owner: { userId: number } | { serviceAccountId: number } | null,
  where: string,
): void {
  const { store, now, refuse } = checking;
  keys.forEach(({ key, expiresAt, place }, index) => {
    const here = `${where}.api_keys[${index}]`;
    const known = key === null ? null : store.apiKeys.find(keyDigest(key));
    if (!known) {
      if (expiresAt !== 0 && expiresAt <= now) refuse(place, `${here}.expires_at: ${expiresAt} lies in the past`);
      return;
    }
    const isOwn =
      owner !== null &&
      ("userId" in owner ? known.user_id === owner.userId : known.service_account_id === owner.serviceAccountId);
    if (!isOwn) refuse(place, `${here}.key: this key belongs to somebody else, give another one`);
    else if (known.revoked_at !== null && !store.apiKeys.hasLapsed(known))
      refuse(place, `${here}.key: this key was revoked, give a new one`);
    else if (!store.apiKeys.isActive(known)) refuse(place, `${here}.key: this key has expired, give a new one`);
  });
}

/** The changes as lines for people; a minted key follows its line. `all` says whether unchanged things are told too. */
export function describeChanges(changes: readonly Change[], all: boolean): string {
  return changes
    .filter(({ outcome }) => all || outcome !== "unchanged")
    .map(({ kind, name, outcome, detail, key }) => {
      const line = `${outcome.padEnd(9)}  ${kind === "api_key" ? "API key of" : kind.replace("_", " ")} ${name}${detail === null ? "" : `: ${oneLine(detail)}`}\n`;
      return key === null ? line : `${line}           ${key}\n`;
    })
    .join("");
}
