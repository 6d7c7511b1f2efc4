/** `assay webhook`: doors for the webhooks of SonarQube and LaunchDarkly. Works with and without a running server. */
import { newSecret } from "../assay.ts";
import type { SonarFlowNames } from "../domain/webhook/sonar.ts";
import { WEBHOOK_KINDS } from "../store/inbound-webhooks.ts";
import type { InboundWebhookRow, WebhookKind } from "../store/inbound-webhooks.ts";
import type { Store } from "../store/index.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import type { Args, CommandOption } from "./args.ts";
import { DATA_OPTIONS, dataDirectory } from "./configuration.ts";
import { change, withData } from "./data.ts";
import type { Data } from "./data.ts";
import { commandFailure, EXIT } from "./frame.ts";
import type { Command, Io } from "./frame.ts";
import { operatorOf } from "./operator.ts";
import { requireOrganization, shownTime } from "./who.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "Organization that records what comes in" };
const FLOW_OPTIONS: Readonly<Record<string, CommandOption>> = {
  "flow-name": { kind: "text", placeholder: "key|name", description: "sonar: what flows are named after when a scan names none, the project's key (default) or its name" },
  "flow-prefix": { kind: "text", placeholder: "TEXT", description: "sonar: what such a name begins with" },
  "flow-suffix": { kind: "text", placeholder: "TEXT", description: "sonar: what such a name ends with" },
};
const KIND = { least: 1, most: 1 };

export const webhookEnable: Command = {
  name: "webhook enable",
  summary: "Take in the webhooks of another product",
  usage: "KIND --org NAME --data DIRECTORY",
  details: [
    "KIND is sonar or launch-darkly. Prints the address and the secret to enter there; the secret is not shown again.",
    "What comes in is recorded by a service account made for it. Enabling again keeps address and secret and changes the options.",
  ],
  options: { org: ORG, ...FLOW_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  async run(args, io) {
    const kind = kindOf(args, "webhook enable");
    const settings = settingsOf(args, kind);
    return onOrganization(args, io, "webhook enable", ({ store }, organization) => {
      if (organization.kind !== "shared") throw commandFailure(`${organization.name} is a personal organization, which has no service accounts; webhooks need one`);
      const operator = operatorOf(store, "webhook enable");
      const known = store.inboundWebhooks.inUse(organization.id, kind);
      if (known) {
        operator.configureWebhook(organization.id, known, settings);
        return told(args, io, { ...shown(known), settings }, `the ${kind} webhook of ${organization.name} is enabled already; its address and its secret stay as they are\n${pathOf(known)}\n`);
      }
      const hook = operator.createWebhook(organization.id, { kind, settings, publicId: newSecret(), secret: newSecret(), accountName: freeName(store, organization.id, kind) });
      const text = `address: ${pathOf(hook)} (below the public URL of this server)\nsecret:  ${hook.secret}\n`;
      return told(args, io, { ...shown(hook), secret: hook.secret }, text);
    });
  },
};

export const webhookList: Command = {
  name: "webhook list",
  summary: "List the webhooks that are taken in",
  usage: "--org NAME --data DIRECTORY",
  details: ["Shows the address of each, and when something last came in; never a secret."],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  run: (args, io) =>
    onOrganization(args, io, "webhook list", ({ store }, organization) => {
      const hooks = store.inboundWebhooks.list(organization.id);
      const line = (hook: InboundWebhookRow): string => `${hook.kind}  ${hook.disabled_at === null ? pathOf(hook) : "disabled"}, ${lastCall(hook)}\n`;
      return told(args, io, { webhooks: hooks.map(shown) }, hooks.map(line).join(""));
    }),
};

export const webhookRotate: Command = {
  name: "webhook rotate-secret",
  summary: "Give a webhook a new secret",
  usage: "KIND --org NAME --data DIRECTORY",
  details: ["The old secret ends at once, also on a running server: enter the new one in the other product right away."],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  async run(args, io) {
    const kind = kindOf(args, "webhook rotate-secret");
    return onOrganization(args, io, "webhook rotate-secret", ({ store }, organization) => {
      const hook = inUse(store, organization, kind);
      const secret = newSecret();
      operatorOf(store, "webhook rotate-secret").setWebhookSecret(organization.id, hook, secret);
      return told(args, io, { ...shown(hook), secret }, `secret: ${secret}\n`);
    });
  },
};

export const webhookDisable: Command = {
  name: "webhook disable",
  summary: "No longer take in a webhook",
  usage: "KIND --org NAME --data DIRECTORY",
  details: ["The address ends at once and for good. What was recorded stays, and so does the service account."],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  async run(args, io) {
    const kind = kindOf(args, "webhook disable");
    return onOrganization(args, io, "webhook disable", ({ store }, organization) => {
      const hook = inUse(store, organization, kind);
      operatorOf(store, "webhook disable").disableWebhook(organization.id, hook);
      return told(args, io, { disabled: kind }, `disabled the ${kind} webhook of ${organization.name}\n`);
    });
  },
};

/** Runs `work` on the organization that --org names, in one transaction, and then says what it gave. */
async function onOrganization(args: Args, io: Io, command: string, work: (data: Data, organization: OrganizationRow) => () => void): Promise<number> {
  const name = args.texts.get("org")?.[0];
  if (name === undefined) throw commandFailure(["--org: name the organization", `see assay help ${command}`], EXIT.usage);
  const directory = await dataDirectory(args, io);
  const tell = withData(directory, (data) =>
    change(data, () => work(data, requireOrganization(data.store, name))),
  );
  tell();
  return EXIT.done;
}

/** Says it after the commit: what is printed has happened. */
const told = (args: Args, io: Io, json: object, text: string) => (): void => io.stdout(args.switches.has("json") ? `${JSON.stringify(json)}\n` : text);

function kindOf(args: Args, command: string): WebhookKind {
  const word = args.positionals[0];
  const kind = WEBHOOK_KINDS.find((one) => one === word);
  if (!kind) throw commandFailure([`there is no webhook ${JSON.stringify(String(word).slice(0, 100))}: say ${WEBHOOK_KINDS.join(" or ")}`, `see assay help ${command}`], EXIT.usage);
  return kind;
}

function settingsOf(args: Args, kind: WebhookKind): SonarFlowNames | Record<string, never> {
  const text = (name: string): string | undefined => args.texts.get(name)?.[0];
  const given = Object.keys(FLOW_OPTIONS).filter((name) => text(name) !== undefined);
  if (kind !== "sonar") {
    if (given.length > 0) throw commandFailure(`--${given[0]}: only the sonar webhook has this option`, EXIT.usage);
    return {};
  }
  const from = text("flow-name") ?? "key";
  if (from !== "key" && from !== "name") throw commandFailure("--flow-name: say key or name", EXIT.usage);
  const [prefix = "", suffix = ""] = [text("flow-prefix"), text("flow-suffix")];
  for (const [option, value] of [["flow-prefix", prefix], ["flow-suffix", suffix]] as const)
    if (!/^[a-zA-Z0-9.\-_~]{0,100}$/.test(value)) throw commandFailure(`--${option}: up to 100 letters, digits and . - _ ~`, EXIT.usage);
  return { from, prefix, suffix };
}

/** The name of the account that acts for the webhook: taken ones are left alone. */
function freeName(store: Store, organizationId: number, kind: WebhookKind): string {
  const name = `${kind}-webhook`;
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name}-${number}`;
    if (!store.serviceAccounts.find(organizationId, candidate)) return candidate;
  }
}

function inUse(store: Store, organization: OrganizationRow, kind: WebhookKind): InboundWebhookRow {
  const hook = store.inboundWebhooks.inUse(organization.id, kind);
  if (!hook) throw commandFailure(`${organization.name} takes in no ${kind} webhook; assay webhook enable ${kind} opens one`);
  return hook;
}

const pathOf = ({ kind, public_id }: Pick<InboundWebhookRow, "kind" | "public_id">): string => `/api/v2/webhooks/${kind}/${public_id}`;

const shown = (hook: InboundWebhookRow) => ({
  kind: hook.kind,
  path: pathOf(hook),
  settings: JSON.parse(hook.settings_json) as object,
  created_at: hook.created_at,
  disabled_at: hook.disabled_at,
  last_received_at: hook.last_received_at,
});

const lastCall = ({ last_received_at: at }: InboundWebhookRow): string =>
  at === null ? "nothing came in yet" : `last call ${shownTime(at)}`;
