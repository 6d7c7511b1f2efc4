/**
 * The apply file declares organizations, users and their keys in YAML. This module only parses it into a plan.
 *
 * Applying a plan is declarative and idempotent: it creates missing objects and updates those that differ, and applying
 * the same file again changes nothing. Objects that the file does not name stay unchanged, and nothing is ever deleted.
 * Organizations and users are identified by name, members by their user, service accounts by name within their
 * organization, and keys by description within their owner. An entry may give its key (`key`). Otherwise the key is
 * generated and shown once; if the owner already has a key with that description, nothing is generated. A key without a
 * description, or with an empty one, gets the description "from an apply file".
 *
 *     organizations:
 *       - name: acme
 *         kind: shared                      # or personal; default shared
 *         public: false                     # default false
 *         features: { controls: true }      # default true
 *         members: [ { user: ops, role: admin } ]
 *         service_accounts:
 *           - { name: ci-bot, privilege: member, api_keys: [ { description: ci } ] }
 *     users:
 *       - name: ops
 *         display_name: Operations          # default ""
 *         email: ops@example.com            # default none
 *         api_keys: [ { description: laptop, expires_at: 0 } ]
 *
 * A personal organization has the name of its user, and only that user can be its member (semantics 1.2). Whether an
 * undeclared member exists, and whether an expiry is in the past, is checked when the plan is applied; the plan carries
 * source positions for those messages.
 */

import { ROLES } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";

import { MAX_EXPIRY_S } from "../../domain/time.ts";
import {
  MAX_NAME_CHARS,
  isApiKeyText,
  matches,
  SERVICE_ACCOUNT_NAME,
  USER_DISPLAY_NAME,
  USER_EMAIL,
  USER_NAME,
} from "../../domain/names.ts";
import { OPERATOR_FILE, readYaml } from "../../domain/text/yaml.ts";
import { compareByPosition } from "../../domain/text/source-position.ts";
import type { SourcePosition } from "../../domain/text/source-position.ts";
import { choice, list, nullable, optional, quote, record, scalar, text, unlessEmpty } from "./yaml-schema.ts";
import type { Reading } from "./yaml-schema.ts";

/** `key` is null if the server generates one; `expiresAt` is epoch seconds, 0 for never. */
export type ApiKeyPlan = { description: string; key: string | null; expiresAt: number; place: SourcePosition };

export type ServiceAccountPlan = {
  name: string;
  privilege: Role;
  apiKeys: readonly ApiKeyPlan[];
  place: SourcePosition;
};

type MemberPlan = { user: string; role: Role; place: SourcePosition };

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

/** The content of an apply file. Each `place` is the position of an entry in the file. */
export type ApplyPlan = { organizations: readonly OrganizationPlan[]; users: readonly UserPlan[] };

type ApplyFileResult = { plan: ApplyPlan; problems: null } | { plan: null; problems: string[] };

/** Describes a valid name of an organization or a user. */
export const NAME_RULE = "a name of letters, digits and - _ . ~ that begins with a letter or a digit";

/** Describes a valid name of a service account. */
export const ACCOUNT_NAME_RULE = "a name of 1 to 64 letters, digits and hyphens";

/** Whether a text is a valid name of a service account (semantics 1.5). */
export function isAccountName(value: string): boolean {
  return value.length <= 64 && matches(SERVICE_ACCOUNT_NAME, value);
}

/** Whether a text is a valid display name: one line of at most 256 characters; empty stands for the login name. */
export function isDisplayName(value: string): boolean {
  return [...value].length <= MAX_NAME_CHARS && matches(USER_DISPLAY_NAME, value);
}

/** Whether a text is plausible as an e-mail address: non-empty on both sides of a single @. */
export function isEmail(value: string): boolean {
  return value.length <= 254 && matches(USER_EMAIL, value);
}

/** Whether a text is a valid description of an API key (semantics 1.6). */
export function isKeyDescription(value: string): boolean {
  return /^.{1,256}$/su.test(value);
}

/** The description of keys that have none: keys are identified by it, and the API requires one (semantics 1.6). */
const DEFAULT_KEY_DESCRIPTION = "from an apply file";

/** Later mistakes mostly follow from the first ones, so a longer list would only bury those. */
const MAX_PROBLEMS = 100;

/**
 * Parses an apply file. Returns all mistakes at once (at most 100), in file order, as
 * "line L column C: PLACE: PROBLEM". No message contains the value of a key. Never throws.
 */
export function parseApplyFile(text: string): ApplyFileResult {
  const yaml = readYaml(text, OPERATOR_FILE);
  const problems: (SourcePosition & { text: string })[] = [...yaml.problems];
  const reading: Reading = {
    place: yaml.positionOf,
    refuse: (place, problem) => problems.push({ ...place, text: problem }),
  };
  if (yaml.root !== null) {
    const plan = PLAN.read(reading, yaml.root, "");
    checkOrganizations(reading, plan);
    checkKeysAndAddresses(reading, plan);
    if (problems.length === 0) return { plan, problems: null };
  } else if (problems.length === 0) {
    // Empty text is refused and does not mean "change nothing": a file that was not mounted looks like this.
    reading.refuse({ line: 1, column: 1 }, "the file is empty, give organizations or users");
  }
  const sorted = problems
    .sort(compareByPosition)
    .map(({ line, column, text: problem }) => `line ${line} column ${column}: ${problem}`);
  const more = sorted.length - MAX_PROBLEMS;
  return { plan: null, problems: more > 0 ? [...sorted.slice(0, MAX_PROBLEMS), `and ${more} more`] : sorted };
}

// Organizations and users share one grammar, see domain/names.ts.
const NAME = text((value) => matches(USER_NAME, value), NAME_RULE);
const ACCOUNT_NAME = text(isAccountName, ACCOUNT_NAME_RULE);
const DISPLAY_NAME = text(isDisplayName, "a text of at most 256 characters on one line");
const EMAIL = text(isEmail, "an e-mail address or null");
const ROLE = choice<Role>(ROLES);
const YES_NO = scalar<boolean>({
  accept: (value) => (typeof value === "boolean" ? value : null),
  accepts: "true or false",
  blank: false,
});

// semantics 1.6
const DESCRIPTION = unlessEmpty(text(isKeyDescription, "a text of up to 256 characters"), DEFAULT_KEY_DESCRIPTION);
const EXPIRES_AT = scalar<number>({
  accept: (value) =>
    Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MAX_EXPIRY_S ? Number(value) : null,
  accepts: "whole epoch seconds from 0 (never) to 4102444800",
  blank: 0,
});
const KEY = text(
  isApiKeyText,
  "16 to 1024 printable ASCII characters without spaces and colons, in quotes, or omit it to generate a key",
  { isSecret: true },
);

const API_KEYS = list(
  record<{ description: string; key: string | null; expires_at: number }, ApiKeyPlan>(
    {
      description: DESCRIPTION,
      key: optional<string | null>(KEY, { value: null }),
      expires_at: optional(EXPIRES_AT, { value: 0 }),
    },
    (fields, place) => ({ description: fields.description, key: fields.key, expiresAt: fields.expires_at, place }),
  ),
  (key) => key.description,
);

const SERVICE_ACCOUNTS = list(
  record<{ name: string; privilege: Role; api_keys: readonly ApiKeyPlan[] }, ServiceAccountPlan>(
    { name: ACCOUNT_NAME, privilege: optional(ROLE, { value: "reader" }), api_keys: optional(API_KEYS, { value: [] }) },
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
      kind: optional(choice<"shared" | "personal">(["shared", "personal"]), { value: "shared" }),
      public: optional(YES_NO, { value: false }),
      features: optional(
        record<{ controls: boolean }>({ controls: optional(YES_NO, { value: true }) }, (fields) => fields),
        {
          value: {
            controls: true,
          },
        },
      ),
      members: optional(MEMBERS, { value: [] }),
      service_accounts: optional(SERVICE_ACCOUNTS, { value: [] }),
    },
    ({ service_accounts, ...fields }, place) => ({ ...fields, serviceAccounts: service_accounts, place }),
  ),
  (organization) => organization.name,
);

const USERS = list(
  record<{ name: string; display_name: string; email: string | null; api_keys: readonly ApiKeyPlan[] }, UserPlan>(
    {
      name: NAME,
      display_name: optional(DISPLAY_NAME, { value: "" }),
      email: optional(nullable(EMAIL), { value: null }),
      api_keys: optional(API_KEYS, { value: [] }),
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
  { organizations: optional(ORGANIZATIONS, { value: [] }), users: optional(USERS, { value: [] }) },
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
        `${where}: ${quote(name)} is also a user in this file and reserved for their personal organization`,
      );
    }
    if (kind === "shared") return;
    members.forEach((member, position) => {
      if (member.user === name || member.user === "" || name === "") return;
      const problem = `only user ${quote(name)} can be a member of this personal organization`;
      reading.refuse(member.place, `${where}.members[${position}]: ${problem}, not ${quote(member.user)}`);
    });
    serviceAccounts.forEach((account, position) => {
      const problem = "this organization is personal, only shared organizations have service accounts";
      reading.refuse(account.place, `${where}.service_accounts[${position}]: ${problem}`);
    });
  });
}

// A key identifies its owner, so two owners cannot share one. E-mail addresses ignore case (semantics 1.3).
function checkKeysAndAddresses(reading: Reading, plan: ApplyPlan): void {
  const keys = new Map<string, SourcePosition>();
  const holders = new Map<string, UserPlan>();
  const claimKeys = (apiKeys: readonly ApiKeyPlan[], where: string): void => {
    apiKeys.forEach(({ key, place }, index) => {
      if (!key) return;
      const earlier = keys.get(key);
      const here = `${where}.api_keys[${index}].key`;
      if (earlier) reading.refuse(place, `${here}: this key is already used in line ${earlier.line}`);
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
    const owner = `user ${quote(holder.name)} in line ${holder.place.line}`;
    reading.refuse(user.place, `users[${index}].email: ${quote(user.email)} already belongs to ${owner}`);
  });
}
