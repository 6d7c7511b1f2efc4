/**
 * The apply file: organizations, users and their keys, declared in YAML. This module only reads it into a plan.
 *
 * Applying a plan is declarative and idempotent. What the file names is created where it is missing and brought to the
 * stated values where it differs; applying the same file again changes nothing. What the file does not name is left
 * alone: organizations, users, members, accounts and keys beyond the file stay as they are, and nothing is ever
 * deleted. Things are recognised by name: organizations and users by theirs, members by their user, service accounts by
 * their name within the organization, keys by their description within their owner. A key without `key` is minted once
 * and shown once; where a key of that description exists already, nothing is minted. A key without a description, or
 * with an empty one, is described as "from an apply file".
 *
 *     organizations:
 *       - name: acme
 *         kind: shared                      # or personal; default shared
 *         public: false                     # default false
 *         features: { controls: true }      # default true
 *         members: [ { user: ops, role: admin } ]
 *         service_accounts:
 *           - { name: ci-bot, privilege: member, api_keys: [ { description: ci, key: "..." } ] }
 *     users:
 *       - name: ops
 *         display_name: Operations          # default ""
 *         email: ops@example.com            # default none
 *         api_keys: [ { description: laptop, key: "...", expires_at: 0 } ]
 *
 * A personal organization bears the name of its user, and only that user can be its member (semantics 1.2). Whether a
 * member that the file does not declare exists, and whether an expiry lies in the past, is for the one who applies the
 * plan; the places in it are there for those messages.
 */
import { isAlias, isMap, isScalar, isSeq } from "yaml";
import { ROLES } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { LATEST_EXPIRY } from "../../domain/time.ts";
import { matches, SERVICE_ACCOUNT_NAME, USER_NAME } from "../../domain/names.ts";
import { byPlace, PLAIN, readYaml } from "../../domain/text/yaml.ts";
import type { SourcePosition } from "../../domain/text/yaml.ts";

/** `key` is null where the server mints one; `expiresAt` is epoch seconds, 0 for never. */
export type ApiKeyPlan = { description: string; key: string | null; expiresAt: number; place: SourcePosition };

export type ServiceAccountPlan = {
  name: string;
  privilege: Role;
  apiKeys: readonly ApiKeyPlan[];
  place: SourcePosition;
};

export type MemberPlan = { user: string; role: Role; place: SourcePosition };

export type OrganizationPlan = {
  name: string;
  kind: "shared" | "personal";
  public: boolean;
  features: { controls: boolean };
  members: readonly MemberPlan[];
  serviceAccounts: readonly ServiceAccountPlan[];
  place: SourcePosition;
};

export type UserPlan = {
  name: string;
  displayName: string;
  email: string | null;
  apiKeys: readonly ApiKeyPlan[];
  place: SourcePosition;
};

/** What an apply file declares. Each `place` is where the entry begins in the file. */
export type ApplyPlan = { organizations: readonly OrganizationPlan[]; users: readonly UserPlan[] };

export type ApplyFileResult = { plan: ApplyPlan; problems: null } | { plan: null; problems: string[] };

/** What a name of an organization or a user looks like, in words. */
export const NAME_RULE = "a name of letters, digits and - _ . ~ that begins with a letter or a digit";

/** What a name of a service account looks like, in words. */
export const ACCOUNT_NAME_RULE = "a name of 1 to 64 letters, digits and hyphens";

/** Whether a text can name a service account (semantics 1.5). */
export function isAccountName(value: string): boolean {
  return value.length <= 64 && matches(SERVICE_ACCOUNT_NAME, value);
}

/** Whether a text may be what people see of a user: one line of at most 256 characters, empty for the login name. */
export function isDisplayName(value: string): boolean {
  return /^[^\p{Cc}]{0,256}$/u.test(value);
}

/** Whether a text can be an e-mail address: something on both sides of one @. */
export function isEmail(value: string): boolean {
  return value.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(value);
}

/** Whether a text can describe an API key (semantics 1.6). */
export function isKeyDescription(value: string): boolean {
  return /^.{1,256}$/su.test(value);
}

/**
 * Describes keys of an apply file that have no description: keys are known by it, and the API demands one (semantics
 * 1.6).
 */
export const DEFAULT_KEY_DESCRIPTION = "from an apply file";

// More would only bury the first mistakes, from which the others mostly follow.
const MOST_PROBLEMS = 100;

/**
 * Reads the text of an apply file. Every mistake is reported at once, in the order of the file, as
 * "line L column C: PLACE: what is wrong", up to 100 of them. The text of a key never appears in a message. Never
 * throws.
 */
export function parseApplyFile(text: string): ApplyFileResult {
  const yaml = readYaml(text, PLAIN);
  const problems: (SourcePosition & { text: string })[] = [...yaml.problems];
  const reading: Reading = {
    place: yaml.place,
    refuse: (place, problem) => problems.push({ ...place, text: problem }),
  };
  if (yaml.root !== null) {
    const plan = PLAN.read(reading, yaml.root, "");
    checkOrganizations(reading, plan);
    checkKeysAndAddresses(reading, plan);
    if (problems.length === 0) return { plan, problems: null };
  } else if (problems.length === 0) {
    // Empty text is refused rather than taken for "change nothing": it is what a file that was never mounted looks
    // like.
    reading.refuse({ line: 1, column: 1 }, "the file is empty, give organizations or users");
  }
  const sorted = problems
    .sort(byPlace)
    .map(({ line, column, text: problem }) => `line ${line} column ${column}: ${problem}`);
  const more = sorted.length - MOST_PROBLEMS;
  return { plan: null, problems: more > 0 ? [...sorted.slice(0, MOST_PROBLEMS), `and ${more} more`] : sorted };
}

type Reading = { place(node: unknown): SourcePosition; refuse(place: SourcePosition, problem: string): void };

/**
 * Turns a node into a value. What it cannot read it refuses and replaces by `blank`, so that the reading goes on and
 * finds the other mistakes; the plan is thrown away then. Blank texts are empty, and no check takes those for
 * duplicates. `where` names the node: organizations[0].members[1].role. `absent` holds the value of a field that may be
 * left out.
 */
type Reader<T> = {
  read(reading: Reading, node: unknown, where: string): T;
  blank: T;
  absent?: { value: T };
};

// Organizations and users share one grammar, see domain/names.ts.
const NAME = text((value) => matches(USER_NAME, value), NAME_RULE);
const ACCOUNT_NAME = text(isAccountName, ACCOUNT_NAME_RULE);
const DISPLAY_NAME = text(isDisplayName, "a text of at most 256 characters on one line");
const EMAIL = text(isEmail, "an e-mail address or null");
const ROLE = choice<Role>(ROLES);
const YES_NO = scalar<boolean>((value) => (typeof value === "boolean" ? value : null), "true or false", false);

// semantics 1.6
const DESCRIPTION = unlessEmpty(text(isKeyDescription, "a text of up to 256 characters"), DEFAULT_KEY_DESCRIPTION);
const EXPIRES_AT = scalar<number>(
  (value) => (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= LATEST_EXPIRY ? Number(value) : null),
  "whole epoch seconds from 0, which is never, to 4102444800",
  0,
);
// Clients also send a key as the user name of basic authentication, which a colon would end. The upper bound keeps a
// key well inside the headers that the server accepts.
const KEY = secretText(
  (value) => /^[!-9;-~]{16,1024}$/.test(value),
  "16 to 1024 printable ASCII characters without spaces and colons, in quotes, or leave it out to have one minted",
);

const API_KEYS = list(
  record<{ description: string; key: string | null; expires_at: number }, ApiKeyPlan>(
    { description: DESCRIPTION, key: optional<string | null>(KEY, null), expires_at: optional(EXPIRES_AT, 0) },
    (fields, place) => ({ description: fields.description, key: fields.key, expiresAt: fields.expires_at, place }),
  ),
  (key) => key.description,
);

const SERVICE_ACCOUNTS = list(
  record<{ name: string; privilege: Role; api_keys: readonly ApiKeyPlan[] }, ServiceAccountPlan>(
    { name: ACCOUNT_NAME, privilege: optional(ROLE, "reader"), api_keys: optional(API_KEYS, []) },
    (fields, place) => ({ name: fields.name, privilege: fields.privilege, apiKeys: fields.api_keys, place }),
  ),
  (account) => account.name,
);

const MEMBERS = list(
  record<{ user: string; role: Role }, MemberPlan>({ user: NAME, role: ROLE }, (fields, place) => ({
    ...fields,
    place,
  })),
  (member) => member.user,
);

type OrganizationFields = Omit<OrganizationPlan, "serviceAccounts" | "place"> & {
  service_accounts: readonly ServiceAccountPlan[];
};

const ORGANIZATIONS = list(
  record<OrganizationFields, OrganizationPlan>(
    {
      name: NAME,
      kind: optional(choice<"shared" | "personal">(["shared", "personal"]), "shared"),
      public: optional(YES_NO, false),
      features: optional(
        record<{ controls: boolean }>({ controls: optional(YES_NO, true) }, (fields) => fields),
        {
          controls: true,
        },
      ),
      members: optional(MEMBERS, []),
      service_accounts: optional(SERVICE_ACCOUNTS, []),
    },
    ({ service_accounts, ...fields }, place) => ({ ...fields, serviceAccounts: service_accounts, place }),
  ),
  (organization) => organization.name,
);

const USERS = list(
  record<{ name: string; display_name: string; email: string | null; api_keys: readonly ApiKeyPlan[] }, UserPlan>(
    {
      name: NAME,
      display_name: optional(DISPLAY_NAME, ""),
      email: optional(nullable(EMAIL), null),
      api_keys: optional(API_KEYS, []),
    },
    ({ display_name, api_keys, ...fields }, place) => ({
      ...fields,
      displayName: display_name,
      apiKeys: api_keys,
      place,
    }),
  ),
  (user) => user.name,
);

const PLAN = record<ApplyPlan>(
  { organizations: optional(ORGANIZATIONS, []), users: optional(USERS, []) },
  (fields) => fields,
);

function checkOrganizations(reading: Reading, plan: ApplyPlan): void {
  const users = new Set(plan.users.map((user) => user.name));
  plan.organizations.forEach((organization, index) => {
    const { name, kind, members, serviceAccounts, place } = organization;
    const where = `organizations[${index}]`;
    if (kind === "shared" && name !== "" && users.has(name)) {
      reading.refuse(
        place,
        `${where}: ${show(name)} is also a user of this file, whose personal organization bears that name`,
      );
    }
    if (kind === "shared") return;
    members.forEach((member, position) => {
      if (member.user === name || member.user === "" || name === "") return;
      const problem = `only user ${show(name)} can be a member of this personal organization, not ${show(member.user)}`;
      reading.refuse(member.place, `${where}.members[${position}]: ${problem}`);
    });
    serviceAccounts.forEach((account, position) => {
      const problem = "service accounts are for shared organizations, this one is personal";
      reading.refuse(account.place, `${where}.service_accounts[${position}]: ${problem}`);
    });
  });
}

// A key identifies its owner, so one text cannot serve two. E-mail addresses are looked up without case (semantics
// 1.3).
function checkKeysAndAddresses(reading: Reading, plan: ApplyPlan): void {
  const keys = new Map<string, SourcePosition>();
  const holders = new Map<string, UserPlan>();
  const claimKeys = (apiKeys: readonly ApiKeyPlan[], where: string): void => {
    apiKeys.forEach(({ key, place }, index) => {
      if (!key) return;
      const earlier = keys.get(key);
      const here = `${where}.api_keys[${index}].key`;
      if (earlier) reading.refuse(place, `${here}: this is the same key as the one of line ${earlier.line}`);
      else keys.set(key, place);
    });
  };
  plan.organizations.forEach(({ serviceAccounts }, index) => {
    serviceAccounts.forEach(({ apiKeys }, position) => {
      claimKeys(apiKeys, `organizations[${index}].service_accounts[${position}]`);
    });
  });
  plan.users.forEach((user, index) => {
    claimKeys(user.apiKeys, `users[${index}]`);
    if (!user.email) return;
    const holder = holders.get(user.email.toLowerCase());
    if (!holder) {
      holders.set(user.email.toLowerCase(), user);
      return;
    }
    const shared = `${show(user.email)} is also the address of user ${show(holder.name)} of line ${holder.place.line}`;
    reading.refuse(user.place, `users[${index}].email: ${shared}`);
  });
}

/** Takes `value` for a field that is left out, has no value, or is an empty text. */
function unlessEmpty(reader: Reader<string>, value: string): Reader<string> {
  return {
    ...reader,
    read(reading, node, where) {
      const isEmpty = isScalar(node) && (node.value === null || node.value === "");
      return isEmpty ? value : reader.read(reading, node, where);
    },
    absent: { value },
  };
}

function optional<T>(reader: Reader<T>, value: NoInfer<T>): Reader<T> {
  return { ...reader, absent: { value } };
}

function nullable<T>(reader: Reader<T>): Reader<T | null> {
  return {
    blank: null,
    read: (reading, node, where) => (isScalar(node) && node.value === null ? null : reader.read(reading, node, where)),
  };
}

function scalar<T>(accept: (value: unknown) => T | null, accepts: string, blank: T, secret = false): Reader<T> {
  return {
    blank,
    read(reading, node, where) {
      if (isAlias(node)) return blank;
      const place = reading.place(node);
      if (isMap(node) || isSeq(node)) {
        reading.refuse(place, `${where}: one value is expected, give ${accepts}`);
        return blank;
      }
      const value = isScalar(node) ? node.value : null;
      const accepted = value === null ? null : accept(value);
      if (accepted !== null) return accepted;
      const given = value === null ? "there is no value" : `${secret ? "this value" : show(value)} is not accepted`;
      reading.refuse(place, `${where}: ${given}, give ${accepts}`);
      return blank;
    },
  };
}

function text(accept: (value: string) => boolean, accepts: string, secret = false): Reader<string> {
  // A name that looks like a number is not turned back into text: 010 and 1e3 would come out as something else.
  return scalar((value) => (typeof value === "string" && accept(value) ? value : null), accepts, "", secret);
}

function secretText(accept: (value: string) => boolean, accepts: string): Reader<string> {
  return text(accept, accepts, true);
}

function choice<T extends string>(words: readonly [T, ...T[]]): Reader<T> {
  const accepts = `${words.slice(0, -1).join(", ")} or ${words[words.length - 1]}`;
  return scalar<T>((value) => words.find((word) => word === value) ?? null, accepts, words[0]);
}

function list<T extends { place: SourcePosition }>(
  reader: Reader<T>,
  identity: (item: T) => string,
): Reader<readonly T[]> {
  return {
    blank: [],
    read(reading, node, where) {
      if (isAlias(node)) return [];
      if (!isSeq(node)) {
        reading.refuse(reading.place(node), `${where}: a list is expected`);
        return [];
      }
      const seen = new Map<string, number>();
      return node.items.map((element, index) => {
        const item = reader.read(reading, element, `${where}[${index}]`);
        const id = identity(item);
        const earlier = seen.get(id);
        if (id !== "" && earlier !== undefined) {
          reading.refuse(item.place, `${where}[${index}]: ${show(id)} stands in line ${earlier} already`);
        } else seen.set(id, item.place.line);
        return item;
      });
    },
  };
}

function record<T extends object, R = T>(
  fields: { readonly [K in keyof T]: Reader<T[K]> },
  build: (values: T, place: SourcePosition) => R,
): Reader<R> {
  const readers = new Map<string, Reader<unknown>>(Object.entries(fields));
  const known = [...readers.keys()].join(", ");
  const blanks = [...readers].map(([key, { absent, blank }]) => [key, absent ? absent.value : blank] as const);
  const blankAt = (place: SourcePosition): R => build(Object.fromEntries(blanks) as T, place);
  return {
    blank: blankAt({ line: 1, column: 1 }),
    read(reading, node, where) {
      const place = reading.place(node);
      if (isAlias(node)) return blankAt(place);
      if (!isMap(node)) {
        reading.refuse(place, `${where === "" ? "the file" : where}: a mapping with ${known} is expected`);
        return blankAt(place);
      }
      const inside = where === "" ? "" : `${where}.`;
      const values = new Map(blanks);
      const given = new Set<string>();
      for (const { key, value } of node.items) {
        const field = isScalar(key) ? String(key.value) : "";
        const reader = readers.get(field);
        if (!reader)
          reading.refuse(reading.place(key), `${inside}${truncate(field, 100)}: unknown key, known are ${known}`);
        else if (value === null) reading.refuse(reading.place(key), `${inside}${field}: there is no value`);
        else if (!given.has(field)) values.set(field, reader.read(reading, value, `${inside}${field}`));
        given.add(field);
      }
      for (const [field, reader] of readers) {
        if (!given.has(field) && reader.absent === undefined) reading.refuse(place, `${inside}${field}: it is missing`);
      }
      return build(Object.fromEntries(values) as T, place);
    },
  };
}

function show(value: unknown): string {
  return truncate(JSON.stringify(value) ?? String(value), 100);
}
