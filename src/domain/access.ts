/**
 * Roles, permissions and who may do what: one table (semantics 1.4). Every operation names one of these permissions;
 * the permission matrix test and the OpenAPI document are derived from the same table.
 */

export const ROLES = ["admin", "member", "snapshotter", "reader"] as const;
export type Role = (typeof ROLES)[number];
export const isRole = (text: string): text is Role => (ROLES as readonly string[]).includes(text);

const everyone: readonly Role[] = ROLES;
const writers: readonly Role[] = ["admin", "member"];

type Grant = {
  /** Roles inside the organization that hold the permission. */
  readonly roles: readonly Role[];
  /** Whether any authenticated caller holds it in a public organization (semantics 1.2, decision 108). */
  readonly outsiders: boolean;
};

export const PERMISSIONS = {
  "org:read": { roles: everyone, outsiders: true },
  "org:settings": { roles: ["admin"], outsiders: false },
  "flow:read": { roles: everyone, outsiders: true },
  "flow:write": { roles: writers, outsiders: false },
  "trail:read": { roles: everyone, outsiders: true },
  "trail:write": { roles: writers, outsiders: false },
  "artifact:read": { roles: everyone, outsiders: true },
  "artifact:write": { roles: writers, outsiders: false },
  "attestation:read": { roles: everyone, outsiders: true },
  "attestation:write": { roles: writers, outsiders: false },
  "policy:read": { roles: everyone, outsiders: true },
  "policy:write": { roles: writers, outsiders: false },
  "environment:read": { roles: everyone, outsiders: true },
  // A snapshotter creates environments on the fly, and may so change one by putting it again (semantics 1.4).
  "environment:create": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "environment:write": { roles: writers, outsiders: false },
  "environment:report": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "allowlist:write": { roles: writers, outsiders: false },
  "tag:write": { roles: writers, outsiders: false },
  "custom_type:read": { roles: everyone, outsiders: true },
  "custom_type:write": { roles: writers, outsiders: false },
  "control:read": { roles: everyone, outsiders: true },
  "control:write": { roles: ["admin"], outsiders: false },
  "repo:read": { roles: everyone, outsiders: true },
  // Targets are hidden from outsiders of a public organization by the operations themselves (decision 108).
  "action:read": { roles: everyone, outsiders: true },
  "action:write": { roles: writers, outsiders: false },
  "notification_config:read": { roles: everyone, outsiders: false },
  "notification_config:write": { roles: ["admin"], outsiders: false },
  // Members and snapshotters manage only the accounts that they created: the operations look at whose it is (semantics
  // 1.4).
  "service_account:read": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "service_account:write": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "membership_audit:read": { roles: ["admin"], outsiders: false },
} as const satisfies Record<string, Grant>;

/**
 * A permission inside the organization of the path, or one of the three that need no organization: `public` (no key),
 * `authenticated` (any valid key; the operation itself decides what the caller sees) and `signed` (no key; the path
 * names a door, whose secret signs the body and whose service account then is the caller).
 */
export type OrgPermission = keyof typeof PERMISSIONS;
export type Permission = OrgPermission | "public" | "authenticated" | "signed";

export const isOrgPermission = (permission: Permission): permission is OrgPermission => permission in PERMISSIONS;

/**
 * What an organization can switch off as a whole (semantics 1.2). Operations of a feature that is off answer everybody
 * as if the permission were missing, before anything below the organization is looked at.
 */
export const FEATURES = ["controls"] as const;
export type Feature = (typeof FEATURES)[number];

/**
 * Whether a caller may act. `role` is the caller's role in the organization, null for somebody who is no member;
 * `isPublic` tells whether the organization is public.
 */
export function allows(permission: OrgPermission, role: Role | null, isPublic: boolean): boolean {
  const grant: Grant = PERMISSIONS[permission];
  return role === null ? isPublic && grant.outsiders : grant.roles.includes(role);
}

/** Whether `holder` may give `wanted` to a service account: nobody grants more than they hold (semantics 1.4). */
export const canGrant = (holder: Role, wanted: Role): boolean => ROLES.indexOf(wanted) >= ROLES.indexOf(holder);

/**
 * Whether an organization still has an admin after some memberships changed: name -> new role, null for one that ends.
 * One that had no admin has none to lose.
 */
export function keepsAdmin(
  members: readonly { name: string; role: Role }[],
  changes: ReadonlyMap<string, Role | null>,
): boolean {
  const after = new Map<string, Role | null>([...members.map(({ name, role }) => [name, role] as const), ...changes]);
  return !members.some(({ role }) => role === "admin") || [...after.values()].includes("admin");
}
