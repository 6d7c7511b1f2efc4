/** Who works at acme, and which programs report for them. */
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { newSecret } from "../../../src/clock.ts";
import type { Role } from "../../../src/domain/access.ts";
import { setPassword } from "../../web/browser.ts";
import { DAY } from "../steps.ts";
import type { Calendar, Moment, Step, Teller } from "../steps.ts";

export const ORG = "acme";
/** An administrator of all organizations of the story. */
export const ADMIN = "release-manager";

const USERS: readonly (readonly [name: string, displayName: string, role: Role, since: Moment])[] = [
  [ADMIN, "Rita Mann", "admin", "92d 08:00"],
  ["security-duty", "Sefa Duty", "admin", "92d 08:10"],
  ["dev-lead", "Devika Leander", "member", "91d 09:30"],
  ["cluster-operator", "Okko Berg", "snapshotter", "90d 14:00"],
  ["auditor", "Audrey Itoh", "reader", "35d 10:00"],
];

type Account = { name: string; description: string; privilege: Role; key: string; since: Moment; endsInDays?: number };
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

/** Creates an organization as the command line does. */
export const createOrganization = ({ server }: Teller, name: string, isPublic = false): void =>
  void server.store.organizations.create({ name, kind: "shared", isPublic, controlsEnabled: true });

/** Makes the user a member, and gives a new user a password (test/web/browser.ts) and a key. */
export async function addMember(
  { server, keys }: Teller,
  { org, name, displayName, role }: { org: string; name: string; displayName: string; role: Role },
): Promise<void> {
  const { store } = server;
  if (!store.users.find(name)) {
    const userId = store.users.create({ name, displayName, email: `${name}@${org}.example` });
    const key = newSecret();
    store.apiKeys.create({ userId }, { digest: keyDigest(key), description: "Laptop", expiresAt: 0 });
    keys.set(name, key);
    await setPassword(server, name);
  }
  const { id } = store.organizations.find(org) as { id: number };
  store.organizations.setRole(id, store.users.find(name) as { id: number }, { role, changedBy: ADMIN, source: "app" });
}

export const people = ({ time, now }: Calendar): Step[] => [
  { at: time("92d 07:59"), make: async (teller) => createOrganization(teller, ORG) },
  ...USERS.map(([name, displayName, role, since]) => ({
    at: time(since),
    make: (teller: Teller) => addMember(teller, { org: ORG, name, displayName, role }),
  })),
  ...ACCOUNTS.map(({ name, description, privilege, key, since, endsInDays }) => ({
    at: time(since),
    async make({ send, keys }: Teller) {
      await send("POST", `/service-accounts/${ORG}`, { by: ADMIN, body: { name, description, privilege } });
      const body = { description: key, expires_at: endsInDays === undefined ? 0 : Math.floor(now) + endsInDays * DAY };
      const made = await send("POST", `/service-accounts/${ORG}/${name}/api-keys`, { by: ADMIN, body });
      keys.set(name, made.key);
    },
  })),
  ...roleChanges(time),
  {
    at: time("0d 09:13"),
    async make({ send, keys }) {
      const path = `/service-accounts/${ORG}/ci-backend-api/api-keys`;
      const [old] = await send("GET", path, { by: ADMIN });
      const made = await send("POST", `${path}/${old.id}/rotate`, { by: ADMIN, body: { grace_period_hours: 24 } });
      keys.set("ci-backend-api", made.key);
    },
  },
];

/** Changes that the audit log shows: a promotion, and somebody who came for a month. */
const roleChanges = (time: Calendar["time"]): Step[] => [
  {
    at: time("70d 10:00"),
    make: (teller) =>
      addMember(teller, { org: ORG, name: "contractor-7", displayName: "Cornel Tracht", role: "reader" }),
  },
  {
    at: time("64d 10:00"),
    make: (teller) =>
      addMember(teller, { org: ORG, name: "contractor-7", displayName: "Cornel Tracht", role: "member" }),
  },
  {
    at: time("40d 17:00"),
    async make({ server: { store } }) {
      const { id } = store.organizations.find(ORG) as { id: number };
      store.organizations.removeMember(id, store.users.find("contractor-7") as { id: number }, {
        changedBy: "security-duty",
        source: "app",
      });
    },
  },
];
