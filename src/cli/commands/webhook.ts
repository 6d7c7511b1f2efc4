/** `assay webhook`: doors for the webhooks of SonarQube and LaunchDarkly. Works with and without a running server. */
import { newSecret } from "../../server/app.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import type { SonarFlowNames } from "../../domain/inbound-webhook/sonar.ts";
import { WEBHOOK_KINDS } from "../../store/notifications/inbound-webhooks.ts";
import type { InboundWebhookRow, WebhookKind } from "../../store/notifications/inbound-webhooks.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { listed } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, dataDirectory, directoryAndUrl, PUBLIC_URL_OPTIONS } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireOrganization, shownTime } from "../lookup.ts";

const ORG: CommandOption = {
  kind: "text",
  placeholder: "NAME",
  description: "Organization that records what comes in",
};
const FLOW_OPTIONS: Readonly<Record<string, CommandOption>> = {
  "flow-name": {
    kind: "text",
    placeholder: "key|name",
    description: "sonar: what flows are named after when a scan names none, the project's key (default) or its name",
  },
  "flow-prefix": { kind: "text", placeholder: "TEXT", description: "sonar: what such a name begins with" },
  "flow-suffix": { kind: "text", placeholder: "TEXT", description: "sonar: what such a name ends with" },
};
const KIND = { least: 1, most: 1, names: ["KIND"], words: WEBHOOK_KINDS };

export const webhookEnable: Command = {
  name: "webhook enable",
  summary: "Take in the webhooks of another product",
  usage: "KIND --org NAME --data DIRECTORY",
  details: [
    "KIND is sonar or launch-darkly. Prints the address and the secret to enter there; the secret is not shown again. The",
    "address begins with the public URL of the server, so run it with the options, variables or file of the server.",
    "What comes in is recorded by a service account made for it. Enabling again keeps address and secret and changes the options.",
  ],
  options: { org: ORG, ...FLOW_OPTIONS, ...PUBLIC_URL_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  check: (args) => [...orgProblems(args), ...kindProblems(args), ...settingsProblems(args)],
  async run(args, io) {
    const kind = kindOf(args);
    const settings = settingsOf(args, kind);
    const { directory, ...address } = await directoryAndUrl(args, io);
    const urls = urlsOf(args, io, address);
    return onOrganization(args, directory, ({ store }, organization) => {
      if (organization.kind !== "shared")
        throw commandFailure(
          `${organization.name} is a personal organization, which has no service accounts; webhooks need one`,
        );
      const operator = operatorOf(store, "webhook enable");
      const known = store.inboundWebhooks.findEnabled(organization.id, kind);
      if (known) {
        operator.configureWebhook(organization.id, known, settings);
        const stays = `the ${kind} webhook of ${organization.name} is enabled already; its address and its secret stay as they are\n`;
        return urls.told({ ...shown(known), settings }, `${stays}${urls.of(known)}\n`);
      }
      const hook = operator.createWebhook(organization.id, {
        kind,
        settings,
        publicId: newSecret(),
        secret: newSecret(),
        accountName: freeName(store, organization.id, kind),
      });
      return urls.told({ ...shown(hook), secret: hook.secret }, `address: ${urls.of(hook)}\nsecret:  ${hook.secret}\n`);
    });
  },
};

export const webhookList: Command = {
  name: "webhook list",
  summary: "List the webhooks that are taken in",
  usage: "--org NAME --data DIRECTORY",
  details: ["Shows the address of each, and when something last came in; never a secret."],
  options: { org: ORG, ...PUBLIC_URL_OPTIONS },
  takesConfig: false,
  check: (args) => orgProblems(args),
  async run(args, io) {
    const { directory, ...address } = await directoryAndUrl(args, io);
    const urls = urlsOf(args, io, address);
    return onOrganization(args, directory, ({ store }, organization) => {
      const hooks = store.inboundWebhooks.list(organization.id);
      const row = (hook: InboundWebhookRow): string[] => {
        const { kind, disabled_at, last_received_at: at } = hook;
        return [kind, at === null ? "never" : shownTime(at), disabled_at === null ? urls.of(hook) : "disabled"];
      };
      const text = tableText(
        ["KIND", "LAST CALL", "ADDRESS"],
        hooks.map(row),
        `${organization.name} has no inbound webhooks`,
      );
      const tell = hooks.some(({ disabled_at }) => disabled_at === null) ? urls.told : told(args, io);
      return tell({ webhooks: hooks.map(shown) }, text);
    });
  },
};

export const webhookRotate: Command = {
  name: "webhook rotate-secret",
  summary: "Give a webhook a new secret",
  usage: "KIND --org NAME --data DIRECTORY",
  details: [
    "The old secret ends at once, also on a running server: enter the new one in the other product right away.",
  ],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  check: (args) => [...orgProblems(args), ...kindProblems(args)],
  async run(args, io) {
    const kind = kindOf(args);
    return onOrganization(args, await dataDirectory(args, io), ({ store }, organization) => {
      const hook = inUse(store, organization, kind);
      const secret = newSecret();
      operatorOf(store, "webhook rotate-secret").setWebhookSecret(organization.id, hook, secret);
      return told(args, io)({ ...shown(hook), secret }, `secret: ${secret}\n`);
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
  check: (args) => [...orgProblems(args), ...kindProblems(args)],
  async run(args, io) {
    const kind = kindOf(args);
    return onOrganization(args, await dataDirectory(args, io), ({ store }, organization) => {
      const hook = inUse(store, organization, kind);
      operatorOf(store, "webhook disable").disableWebhook(organization.id, hook);
      return told(args, io)({ disabled: kind }, `disabled the ${kind} webhook of ${organization.name}\n`);
    });
  },
};

/** Runs `work` on the organization that --org names, in one transaction, and then says what it gave. */
function onOrganization(
  args: Args,
  directory: string,
  work: (data: Data, organization: OrganizationRow) => () => void,
): number {
  const name = args.texts.get("org")?.[0] ?? "";
  const tell = withData(directory, (data) => change(data, () => work(data, requireOrganization(data.store, name))));
  tell();
  return EXIT.done;
}

/** Says it after the commit: what is printed has happened. */
type Tell = (json: object, text: string) => () => void;

const told =
  (args: Args, io: Io): Tell =>
  (json, text) =>
  () =>
    io.stdout(args.switches.has("json") ? `${JSON.stringify(json)}\n` : text);

/** The addresses to enter in the other product. `told` says something with such an address in it. */
type Urls = { of(hook: InboundWebhookRow): string; told: Tell };

function urlsOf(args: Args, io: Io, { baseUrl, isDerived }: { baseUrl: string; isDerived: boolean }): Urls {
  const hint =
    "base-url is not set here, so the address follows from the listen address: give --base-url URL as the server has it\n";
  return {
    of: (hook) => `${baseUrl}${pathOf(hook)}`,
    told: (json, text) => () => {
      told(args, io)(json, text)();
      if (isDerived && !args.switches.has("json")) io.stderr(hint);
    },
  };
}

const orgProblems = ({ texts }: Args): string[] => (texts.has("org") ? [] : ["--org: name the organization"]);

const findKind = ({ positionals: [word] }: Args): WebhookKind | undefined => WEBHOOK_KINDS.find((one) => one === word);

const kindProblems = (args: Args): string[] =>
  args.positionals.length === 0 || findKind(args)
    ? []
    : [`there is no webhook ${JSON.stringify(truncate(args.positionals[0] ?? "", 100))}: say ${listed(WEBHOOK_KINDS)}`];

function kindOf(args: Args): WebhookKind {
  const kind = findKind(args);
  if (!kind) throw new Error("the check of the command line let a kind of webhook pass that is none");
  return kind;
}

/** How flows are named that a scan does not name; `from` may be any text before it is checked. */
const flowNamesOf = ({ texts }: Args): { from: string; prefix: string; suffix: string } => ({
  from: texts.get("flow-name")?.[0] ?? "key",
  prefix: texts.get("flow-prefix")?.[0] ?? "",
  suffix: texts.get("flow-suffix")?.[0] ?? "",
});

function settingsProblems(args: Args): string[] {
  const kind = findKind(args);
  const given = Object.keys(FLOW_OPTIONS).filter((name) => args.texts.has(name));
  if (kind !== undefined && kind !== "sonar")
    return given.map((name) => `--${name}: only the sonar webhook has this option`);
  const { from, prefix, suffix } = flowNamesOf(args);
  const problems = isSource(from) ? [] : ["--flow-name: say key or name"];
  for (const [option, value] of [
    ["flow-prefix", prefix],
    ["flow-suffix", suffix],
  ] as const) {
    if (!/^[a-zA-Z0-9.\-_~]{0,100}$/.test(value)) problems.push(`--${option}: up to 100 letters, digits and . - _ ~`);
  }
  return problems;
}

const isSource = (text: string): text is SonarFlowNames["from"] => text === "key" || text === "name";

function settingsOf(args: Args, kind: WebhookKind): SonarFlowNames | Record<string, never> {
  const { from, prefix, suffix } = flowNamesOf(args);
  return kind === "sonar" && isSource(from) ? { from, prefix, suffix } : {};
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
  const hook = store.inboundWebhooks.findEnabled(organization.id, kind);
  if (!hook)
    throw commandFailure(`${organization.name} takes in no ${kind} webhook; assay webhook enable ${kind} opens one`);
  return hook;
}

const pathOf = ({ kind, public_id }: Pick<InboundWebhookRow, "kind" | "public_id">): string =>
  `/api/v2/webhooks/${kind}/${public_id}`;

const shown = (hook: InboundWebhookRow) => ({
  kind: hook.kind,
  path: pathOf(hook),
  settings: JSON.parse(hook.settings_json) as object,
  created_at: hook.created_at,
  disabled_at: hook.disabled_at,
  last_received_at: hook.last_received_at,
});
