/** Who works at acme, and which programs report for them. */
import { createUserWithOrganization } from "../../auth/account-changes.ts";
import { createChanges } from "../../api/changes.ts";
import type { Changes } from "../../api/changes.ts";
import type { Role } from "../../domain/access.ts";
import { DAY_S } from "../../domain/time.ts";
import type { Calendar, StoryTime, Step, Teller } from "../steps.ts";

export const ORG = "acme";
/** An administrator of all organizations of the story. */
export const ADMIN = "release-manager";

const USERS: readonly (readonly [name: string, displayName: string, role: Role, since: StoryTime])[] = [
  ["security-duty", "Sefa Duty", "admin", "92d 08:10"],
  ["dev-lead", "Devika Leander", "member", "91d 09:30"],
  ["cluster-operator", "Okko Berg", "snapshotter", "90d 14:00"],
  ["auditor", "Audrey Itoh", "reader", "35d 10:00"],
];

type Account = {
  name: string;
  description: string;
  privilege: Role;
  key: string;
  since: StoryTime;
  endsInDays?: number;
};
const ACCOUNTS: readonly Account[] = [
  {
    name: "ci-backend-api",
    description: "Pipelines of backend-api",
    privilege: "member",
    key: "Runner pool EU",
    since: "90d 09:00",
  },
  {
    name: "ci-web-checkout",
    description: "Pipelines of web-checkout",
    privilege: "member",
    key: "Hosted runners",
    since: "90d 09:05",
  },
  { name: "ci-infra", description: "Terraform runs", privilege: "member", key: "Terraform runner", since: "90d 09:10" },
  {
    name: "reporter-production-eu",
    description: "Cluster reporter",
    privilege: "snapshotter",
    key: "Reporter in production-eu",
    since: "84d 11:24",
    endsInDays: 6,
  },
  {
    name: "reporter-fleet",
    description: "Reports of all other environments",
    privilege: "snapshotter",
    key: "Fleet reporter",
    since: "84d 11:30",
    endsInDays: 200,
  },
  {
    name: "auditor-export",
    description: "Quarterly evidence export",
    privilege: "reader",
    key: "Export of the fourth quarter",
    since: "30d 10:00",
    endsInDays: 90,
  },
];

/** The changes of the operator at the command line. Call them inside a write. */
const operatorChanges = ({ server }: Teller): Changes =>
  createChanges(server.store, {
    operation: "init",
    requestId: server.newId(),
    displayName: "operator",
    source: "script",
    actor: { kind: "operator", publicId: "", name: "operator", keyPublicId: "" },
  });

/** Gives a user a key, as the command line does. */
async function giveKey(teller: Teller, name: string): Promise<void> {
  const key = teller.server.newSecret();
  await teller.server.writer.run(() => {
    const user = teller.server.store.users.find(name);
    if (!user) throw new Error(`the story has no user '${name}'`);
    operatorChanges(teller).createKey({ userId: user.id, name }, { key, description: "Laptop", expiresAt: 0 });
  });
  teller.keys.set(name, key);
}

/** Creates an organization with its administrator, as the command line does. */
export async function foundOrganization(teller: Teller, org: string): Promise<void> {
  await teller.server.writer.run(() => {
    const changes = operatorChanges(teller);
    const user =
      teller.server.store.users.find(ADMIN) ??
      createUserWithOrganization(changes, { name: ADMIN, displayName: "Rita Mann", email: `${ADMIN}@${ORG}.example` });
    const fields = { name: org, kind: "shared", isPublic: false, controlsEnabled: true } as const;
    changes.setRole(changes.createOrganization(fields), user, { role: "admin", previous: null });
  });
  if (!teller.keys.has(ADMIN)) await giveKey(teller, ADMIN);
}

type Member = { org: string; name: string; displayName: string; role: Role };

/** Creates a user as a member of an organization, with a key. */
export async function addMember(teller: Teller, { org, name, displayName, role }: Member): Promise<void> {
  const body = { name, display_name: displayName, email: `${name}@${org}.example`, role };
  await teller.send("POST", `/members/${org}`, { by: ADMIN, body });
  await giveKey(teller, name);
}

export const people = ({ time, now }: Calendar): Step[] => [
  { at: time("92d 08:00"), make: (teller) => foundOrganization(teller, ORG) },
  ...USERS.map(([name, displayName, role, since]) => ({
    at: time(since),
    make: (teller: Teller) => addMember(teller, { org: ORG, name, displayName, role }),
  })),
  ...ACCOUNTS.map(({ name, description, privilege, key, since, endsInDays }) => ({
    at: time(since),
    async make({ send, keys }: Teller) {
      await send("POST", `/service-accounts/${ORG}`, { by: ADMIN, body: { name, description, privilege } });
      const body = {
        description: key,
        expires_at: endsInDays === undefined ? 0 : Math.floor(now) + endsInDays * DAY_S,
      };
      const answer = await send("POST", `/service-accounts/${ORG}/${name}/api-keys`, { by: ADMIN, body });
      keys.set(name, answer.key);
    },
  })),
  ...roleChanges(time),
  {
    at: time("0d 09:13"),
    async make({ send, keys }) {
      const path = `/service-accounts/${ORG}/ci-backend-api/api-keys`;
      const [old] = await send("GET", path, { by: ADMIN });
      const answer = await send("POST", `${path}/${old.id}/rotate`, { by: ADMIN, body: { grace_period_hours: 24 } });
      keys.set("ci-backend-api", answer.key);
    },
  },
];

/** Changes that the audit log shows: a promotion, and a contractor who came for a month. */
const roleChanges = (time: Calendar["time"]): Step[] => [
  {
    at: time("70d 10:00"),
    make: (teller) =>
      addMember(teller, { org: ORG, name: "contractor-7", displayName: "Cornel Tracht", role: "reader" }),
  },
  {
    at: time("64d 10:00"),
    make: ({ send }) => send("PUT", `/members/${ORG}/contractor-7`, { by: ADMIN, body: { role: "member" } }),
  },
  {
    at: time("40d 17:00"),
    make: ({ send }) => send("DELETE", `/members/${ORG}/contractor-7`, { by: "security-duty" }),
  },
];
