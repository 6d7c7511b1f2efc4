/** What an OpenID provider says of a person, and what follows from it here. */
import { ROLES } from "../access.ts";
import type { Role } from "../access.ts";
import { matches, USER_NAME } from "../names.ts";

/** The claims that count; `groups` empty where the provider names none. */
export type Person = {
  issuer: string;
  subject: string;
  /** Texts to make a login name of, the best first. */
  names: readonly string[];
  displayName: string;
  /** null unless the provider gives one, and does not say that it is unverified. */
  email: string | null;
  groups: readonly string[];
};

/**
 * What somebody in these groups is in each organization that the mapping names: the strongest role that a group gives
 * there, null where none gives any.
 */
export function resolveRoles(
  groups: readonly string[],
  mapping: readonly { group: string; organization: string; role: Role }[],
): ReadonlyMap<string, Role | null> {
  const roles = new Map<string, Role | null>();
  for (const { group, organization, role } of mapping) {
    const held = roles.get(organization) ?? null;
    const given = groups.includes(group) ? role : null;
    roles.set(
      organization,
      given !== null && (held === null || ROLES.indexOf(given) < ROLES.indexOf(held)) ? given : held,
    );
  }
  return roles;
}

/** Characters of a login name that is made here. */
const LONGEST_NAME = 64;

/**
 * A login name that is free, made of the first usable one of `names` (of an address the part before the @): what a name
 * may not hold becomes a dash, and a number makes it unique. Somebody who is here already is never taken for the
 * person.
 */
export function chooseLoginName(names: readonly string[], isTaken: (name: string) => boolean): string {
  const [base = "user"] = names.flatMap((name) => {
    const plain = (name.split("@")[0] ?? "")
      .normalize("NFKD")
      .replace(/\p{M}/gu, "")
      .replace(/[^a-zA-Z0-9._~-]+/g, "-");
    const fitting = plain
      .replace(/^[^a-zA-Z0-9]+/, "")
      .slice(0, LONGEST_NAME)
      .replace(/-+$/, "");
    return matches(USER_NAME, fitting) ? [fitting] : [];
  });
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? base : `${base}-${number}`;
    if (!isTaken(name)) return name;
  }
}

/**
 * The claims of an ID token, or of the userinfo endpoint, that is not known to be of any shape.
 * @throws Error for an empty subject: everybody whose token has none would be one and the same person.
 */
export function parsePerson(
  issuer: string,
  subject: string,
  claims: Readonly<Record<string, unknown>>,
  groupsClaim: string,
): Person {
  if (subject.trim() === "") throw new Error("the sub of the ID token is empty: it identifies nobody");
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

/** Providers give a list, or one group as a text. */
export function parseGroups(claim: unknown): readonly string[] {
  const list = Array.isArray(claim) ? claim : [claim];
  return list.filter((one): one is string => typeof one === "string");
}
