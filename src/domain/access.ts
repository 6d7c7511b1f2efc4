/**
 * Roles and permissions in one table (semantics 1.4). Every operation names one of these permissions; the permission
 * matrix test and the OpenAPI document are derived from the same table.
 */

/** From the strongest role to the weakest. */
export const ROLES = ["admin", "member", "snapshotter", "reader"] as const;
export type Role = (typeof ROLES)[number];
export const isRole = (text: string): text is Role => (ROLES as readonly string[]).includes(text);

const ALL_ROLES: readonly Role[] = ROLES;
const WRITERS: readonly Role[] = ["admin", "member"];

type Grant = {
  /** Roles inside the organization that hold the permission. */
  readonly roles: readonly Role[];
  /** Whether any authenticated principal holds it in a public organization (semantics 1.2, 13.108). */
  readonly outsiders: boolean;
};

const PERMISSIONS = {
  "org:read": { roles: ALL_ROLES, outsiders: true },
  "org:settings": { roles: ["admin"], outsiders: false },
  "flow:read": { roles: ALL_ROLES, outsiders: true },
  "flow:write": { roles: WRITERS, outsiders: false },
  "trail:read": { roles: ALL_ROLES, outsiders: true },
  "trail:write": { roles: WRITERS, outsiders: false },
  "artifact:read": { roles: ALL_ROLES, outsiders: true },
  "artifact:write": { roles: WRITERS, outsiders: false },
  "attestation:read": { roles: ALL_ROLES, outsiders: true },
  "attestation:write": { roles: WRITERS, outsiders: false },
  "policy:read": { roles: ALL_ROLES, outsiders: true },
  "policy:write": { roles: WRITERS, outsiders: false },
  "rego_policy:read": { roles: ALL_ROLES, outsiders: true },
  "rego_policy:write": { roles: ["admin"], outsiders: false },
  "evaluation:read": { roles: ALL_ROLES, outsiders: true },
  // With a decision it takes the rights of a report as well: the operation checks that (newer-clients 4.6).
  "evaluation:create": { roles: ALL_ROLES, outsiders: false },
  "environment:read": { roles: ALL_ROLES, outsiders: true },
  // A snapshotter creates environments on the fly, and may therefore change one by putting it again (semantics 1.4).
  "environment:create": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "environment:write": { roles: WRITERS, outsiders: false },
  "environment:report": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "allowlist:write": { roles: WRITERS, outsiders: false },
  "tag:write": { roles: WRITERS, outsiders: false },
  "custom_type:read": { roles: ALL_ROLES, outsiders: true },
  "custom_type:write": { roles: WRITERS, outsiders: false },
  "control:read": { roles: ALL_ROLES, outsiders: true },
  "control:write": { roles: ["admin"], outsiders: false },
  "repo:read": { roles: ALL_ROLES, outsiders: true },
  // The operations themselves hide targets from outsiders of a public organization (semantics 13.108).
  "action:read": { roles: ALL_ROLES, outsiders: true },
  "action:write": { roles: WRITERS, outsiders: false },
  "notification_config:read": { roles: ALL_ROLES, outsiders: false },
  "notification_config:write": { roles: ["admin"], outsiders: false },
  // Members and snapshotters manage only the accounts that they created: the operations check the creator (semantics
  // 1.4).
  "service_account:read": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  "service_account:write": { roles: ["admin", "member", "snapshotter"], outsiders: false },
  // Of all service accounts, also of those that others created.
  "expiring_key:read": { roles: ["admin"], outsiders: false },
  // A view is a name for what its reader may read. The operations themselves leave those of the organization to admins.
  "view:read": { roles: ALL_ROLES, outsiders: false },
  "view:write": { roles: ALL_ROLES, outsiders: false },
  "membership_audit:read": { roles: ["admin"], outsiders: false },
} as const satisfies Record<string, Grant>;

/**
 * A permission in the organization of the path, or one of the four that need no organization: `public` (no key),
 * `authenticated` (any valid key; the operation itself filters the result), `signed` (no key; the path names an
 * inbound webhook, whose secret signs the body and whose service account becomes the principal) and `operator` (the
 * command line on the machine of the server; no key and no session has it).
 */
export type OrgPermission = keyof typeof PERMISSIONS;
export type Permission = OrgPermission | "public" | "authenticated" | "signed" | "operator";

export const isOrgPermission = (permission: Permission): permission is OrgPermission => permission in PERMISSIONS;

/**
 * The operator reads and configures every organization as an admin does. Evidence and decisions need an author whom an
 * auditor can ask, so they take an API key.
 */
const REPORTING: readonly OrgPermission[] = [
  "trail:write",
  "artifact:write",
  "attestation:write",
  "environment:report",
  "allowlist:write",
];

/** Whether the operator holds a permission, in any organization. */
export const operatorHolds = (permission: OrgPermission): boolean => !REPORTING.includes(permission);

/**
 * Features that an organization can switch off as a whole (semantics 1.2). An operation of a disabled feature responds
 * as if the permission were missing, before it looks up anything below the organization.
 */
export const FEATURES = ["controls"] as const;
export type Feature = (typeof FEATURES)[number];

/**
 * Whether a principal holds a permission.
 * @param membership.role the principal's role in the organization, null for a non-member
 * @param membership.isPublic whether the organization is public
 */
export function allows(permission: OrgPermission, membership: { role: Role | null; isPublic: boolean }): boolean {
  const { role, isPublic } = membership;
  const grant: Grant = PERMISSIONS[permission];
  return role === null ? isPublic && grant.outsiders : grant.roles.includes(role);
}

/** Whether `holder` may give `wanted` to a service account: at most the holder's own role (semantics 1.4). */
export const canGrant = (holder: Role, wanted: Role): boolean => ROLES.indexOf(wanted) >= ROLES.indexOf(holder);

/**
 * Whether an organization still has an admin after membership changes: name -> new role, null for a membership that
 * ends. True for an organization that had no admin before.
 */
export function keepsAdmin(
  members: readonly { name: string; role: Role }[],
  changes: ReadonlyMap<string, Role | null>,
): boolean {
  const after = new Map<string, Role | null>([...members.map(({ name, role }) => [name, role] as const), ...changes]);
  return !members.some(({ role }) => role === "admin") || [...after.values()].includes("admin");
}
