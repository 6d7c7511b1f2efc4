/** Roles in words. */
import { canGrant, ROLES } from "../../../domain/access.ts";
import type { Role } from "../../../domain/access.ts";

const WORDS: Readonly<Record<Role, string>> = {
  admin: "Admin: everything, also members and settings",
  member: "Member: reports, and changes flows, environments and policies",
  snapshotter: "Snapshotter: reports what runs in environments",
  reader: "Reader: reads only",
};

/** All roles, for a field. */
export const ROLE_CHOICES = ROLES.map((value) => ({ value, text: WORDS[value] }));

/** The roles that a person may give to a service account. @param holder the role of the person */
export const grantableChoices = (holder: Role | null): { value: Role; text: string }[] =>
  ROLE_CHOICES.filter(({ value }) => holder !== null && canGrant(holder, value));
