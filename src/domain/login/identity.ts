/** The person in an OpenID provider's claims, with the roles and the login name that follow from them. */
import { ROLES } from "../access.ts";
import type { Role } from "../access.ts";
import { matches, USER_NAME } from "../names.ts";

/** The claims that are used; `groups` is empty if the provider sends none. */
export type Person = {
  issuer: string;
  subject: string;
  /** Candidates for a login name, best first. */
  names: readonly string[];
  displayName: string;
  /** null if the provider sends none or marks it as unverified. */
  email: string | null;
  groups: readonly string[];
};

/**
 * The role of a member of these groups in each organization of the mapping: the strongest role that one of the groups
 * grants there, null if none does.
 */
export function resolveRoles(
  groups: readonly string[],
  mapping: readonly { group: string; organization: string; role: Role }[],
): ReadonlyMap<string, Role | null> {
  const roles = new Map<string, Role | null>();
  for (const { group, organization, role } of mapping) {
    const strongest = roles.get(organization) ?? null;
    const granted = groups.includes(group) ? role : null;
    const isStronger = granted !== null && (strongest === null || ROLES.indexOf(granted) < ROLES.indexOf(strongest));
    roles.set(organization, isStronger ? granted : strongest);
  }
  return roles;
}

/** Longest generated login name, without the number that makes it unique. */
const MAX_LOGIN_NAME_CHARS = 64;

/**
 * An unused login name, made from the first usable one of `names` (from an address, the part before the @). Invalid
 * characters become a dash, and a number makes the name unique, so that it never identifies an existing user.
 */
export function chooseLoginName(names: readonly string[], isTaken: (name: string) => boolean): string {
  const [base = "user"] = names.flatMap((name) => {
    const plain = (name.split("@")[0] ?? "")
      .normalize("NFKD")
      .replace(/\p{M}/gu, "")
      .replace(/[^a-zA-Z0-9._~-]+/g, "-");
    const fitting = plain
      .replace(/^[^a-zA-Z0-9]+/, "")
      .slice(0, MAX_LOGIN_NAME_CHARS)
      .replace(/-+$/, "");
    return matches(USER_NAME, fitting) ? [fitting] : [];
  });
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? base : `${base}-${number}`;
    if (!isTaken(name)) return name;
  }
}

/**
 * Reads the claims of an ID token or of the userinfo endpoint, whose shape is not validated before.
 * @param token.groupsClaim name of the claim that lists groups
 * @throws Error for an empty subject: all users with such a token would share one account
 */
export function parsePerson(
  claims: Readonly<Record<string, unknown>>,
  { issuer, subject, groupsClaim }: { issuer: string; subject: string; groupsClaim: string },
): Person {
  if (subject.trim() === "") throw new Error("the sub claim of the ID token is empty and identifies no user");
  const text = (name: string): string | null => {
    const value = claims[name];
    return typeof value === "string" && value !== "" ? value : null;
  };
  const email = claims["email_verified"] === false ? null : text("email");
  const name = text("name") ?? "";
  return {
    issuer,
    subject,
    names: [text("preferred_username"), text("email")].filter((one) => one !== null),
    displayName: /^[^\p{Cc}]{0,256}$/u.test(name) ? name : "",
    email: email !== null && email.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(email) ? email : null,
    groups: parseGroups(claims[groupsClaim]),
  };
}

/** Reads a groups claim, which is a list, or one group as a text. */
export function parseGroups(claim: unknown): readonly string[] {
  const list = Array.isArray(claim) ? claim : [claim];
  return list.filter((one): one is string => typeof one === "string");
}
