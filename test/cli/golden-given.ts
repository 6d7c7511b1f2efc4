/** What the golden of the commands needs besides what commands make: sessions, actions, messages, trails. */
import { cookieDigest } from "../../src/store/accounts/sessions.ts";
import { keyDigest } from "../../src/store/accounts/api-keys.ts";
import type { Store } from "../../src/store/index.ts";
import type { Db } from "../../src/store/db/types.ts";
import { TRAIL_FIELDS, createFlow } from "../store/given.ts";

const T = 1_700_000_000;

/** A member with an account that has a live key, and one without. */
export function addMemberWithAccounts(store: Store): void {
  const organizationId = store.organizations.find("acme")?.id as number;
  const user = { id: store.users.create({ name: "hal", displayName: "", email: null }), name: "hal" };
  store.organizations.setRole(organizationId, user, { role: "member", changedBy: "given", source: "app" });
  for (const name of ["hals", "hals-idle"]) {
    const creatingUserId = store.users.get(user.id).public_id;
    const account = { organizationId, name, description: null, privilege: "member" as const, creatingUserId };
    const serviceAccountId = store.serviceAccounts.create(account);
    if (name === "hals")
      store.apiKeys.create({ serviceAccountId }, { digest: keyDigest("hal"), description: "d", expiresAt: 0 });
  }
}

/** Two sessions of ops and one of ann, and a login of ann with a provider. */
export function addSessions(store: Store): void {
  for (const [name, cookie] of [
    ["ops", "one"],
    ["ops", "two"],
    ["ann", "three"],
  ] as const)
    store.sessions.create({
      digest: cookieDigest(cookie),
      csrfToken: "t",
      userId: store.users.find(name)?.id as number,
      method: "password",
      address: "10.0.0.1",
      userAgent: `Browser\u0007 of ${cookie}`,
      idleTimeoutS: 3600,
      lifetimeS: 7200,
    });
  store.identities.create("https://id.example.com", "ann-7", store.users.find("ann")?.id as number);
}

/** The actions 1 with two webhooks and 2 with an address, and messages in every state. */
export function addMessages(store: Store, db: Db): void {
  const organizationId = store.organizations.find("acme")?.id as number;
  let made = 0;
  const newSecret = (): string => `secret-${(made += 1)}`;
  const hook = (webhook: string) => ({ type: "WEBHOOK" as const, target: { type: "WEBHOOK" as const, webhook } });
  const mail = { type: "EMAIL" as const, target: { type: "EMAIL" as const, emails: ["a@b.org"] } };
  for (const [name, targets] of [
    ["alerts", [hook("https://hooks.example.com/a"), mail, hook("https://hooks.example.com/\u001b[31m")]],
    ["mails", [mail]],
  ] as const)
    store.actions.create(
      organizationId,
      { kind: "env", name, triggers: [], places: [], targets: [...targets], newSecret },
      { user: "ops", fromChat: false },
    );
  store.notificationTargets.replace(
    { organizationId, notificationType: "api_key_expiry" },
    [hook("https://c.example.com")],
    newSecret,
  );
  const targetId = db.prepare<[], number>("SELECT min(id) FROM notification_targets").pluck().get() as number;
  for (const [n, fate] of (["dead", "waiting", "delivered", "dead", "dead"] as const).entries()) {
    store.outbox.add({
      organizationId,
      queue: n < 4 ? `target ${targetId}` : "mail a@b.org",
      targetId: n < 4 ? targetId : null,
      subject: `alerts: ${n}`,
      message: { type: "WEBHOOK", webhook: "https://ann:pw@hooks.example.com:8443/secret?token=x", body: { n } },
    });
    const id = db.prepare<[], number>("SELECT max(id) FROM deliveries").pluck().get() as number;
    if (fate === "waiting") continue;
    const error = fate === "dead" ? "The receiver answered with status 500: down" : null;
    const attempt = { startedAt: T, seconds: 1.25, address: "192.0.2.1", status: error ? 500 : 200, error };
    store.outbox.recordAttempt({ id, target_id: n < 4 ? targetId : null }, attempt, {
      outcome: { state: fate },
      publicError: error,
    });
  }
}

/** The flow build with the trail t1. */
export function addTrail(store: Store): void {
  const organizationId = store.organizations.find("acme")?.id as number;
  const flow = createFlow(store, organizationId, "build");
  store.trails.create(
    { organizationId, flowId: flow.id, name: "t1", createdBy: "ops" },
    { ...TRAIL_FIELDS, template_id: flow.template_id },
  );
}
