/** `assay webhook`: manages inbound webhooks of SonarQube and LaunchDarkly. Works with and without a running server. */
import { truncate } from "../../domain/text/excerpt.ts";
import { SONAR_NAME_AFFIX } from "../../domain/inbound-webhook/sonar.ts";
import type { SonarFlowNames } from "../../domain/inbound-webhook/sonar.ts";
import { matches } from "../../domain/names.ts";
import { WEBHOOK_KINDS } from "../../store/notifications/inbound-webhooks.ts";
import type { InboundWebhookRow, WebhookKind } from "../../store/notifications/inbound-webhooks.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { joinAlternatives } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory, resolveDirectoryAndUrl, PUBLIC_URL_OPTIONS } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { renderTable } from "../table.ts";
import { requireOrganization, formatTimestamp } from "../lookup.ts";
import { newSecret } from "../../clock.ts";

const ORG: CommandOption = {
  kind: "text",
  placeholder: "NAME",
  description: "Organization that receives the webhooks",
};
const FLOW_OPTIONS: Readonly<Record<string, CommandOption>> = {
  "flow-name": {
    kind: "text",
    placeholder: "key|name",
    description: "sonar: name flows of scans without a flow after the project's key (default) or name",
  },
  "flow-prefix": { kind: "text", placeholder: "TEXT", description: "sonar: prefix of such a flow name" },
  "flow-suffix": { kind: "text", placeholder: "TEXT", description: "sonar: suffix of such a flow name" },
};
const KIND = { min: 1, max: 1, names: ["KIND"], words: WEBHOOK_KINDS };

export const webhookEnable: Command = {
  name: "webhook enable",
  summary: "Accept webhooks from another product",
  usage: "KIND --org NAME [--data DIRECTORY]",
  details: [
    "KIND is sonar or launch-darkly. Prints the address and the secret to enter in the other product; the secret " +
      "is not shown again. The address begins with the public URL of the server, so run this with the options, " +
      "variables or file of the server. Creates a service account that records the incoming data. Enabling a " +
      "webhook again keeps its address and secret and only updates its options.",
  ],
  options: { org: ORG, ...FLOW_OPTIONS, ...PUBLIC_URL_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  check: (args) => [...findOrgProblems(args), ...findKindProblems(args), ...findSettingsProblems(args)],
  async run(args, io) {
    const kind = kindOf(args);
    const settings = settingsOf(args, kind);
    const { directory, ...address } = await resolveDirectoryAndUrl(args, io);
    const urls = createUrls(args, io, address);
    return withOrganization(args, directory, ({ store }, organization) => {
      if (organization.kind !== "shared")
        throw new CommandError(
          `${organization.name} is a personal organization; webhooks need a service account, so choose a shared one`,
        );
      const operator = createOperatorChanges(store, "webhook enable");
      const known = store.inboundWebhooks.findEnabled(organization.id, kind);
      if (known) {
        operator.configureWebhook(organization.id, known, settings);
        const name = `the ${kind} webhook of ${organization.name}`;
        const text = `${name} is already enabled; its address and secret have not changed\n${urls.of(known)}\n`;
        return urls.print({ ...present(known), settings }, text);
      }
      const hook = operator.createWebhook(organization.id, {
        kind,
        settings,
        publicId: newSecret(),
        secret: newSecret(),
      });
      const text = `address: ${urls.of(hook)}\nsecret:  ${hook.secret}\n`;
      return urls.print({ ...present(hook), secret: hook.secret }, text);
    });
  },
};

export const webhookList: Command = {
  name: "webhook list",
  summary: "List inbound webhooks",
  usage: "--org NAME [--data DIRECTORY]",
  details: ["Shows the address of each and the time of its last call, but never its secret."],
  options: { org: ORG, ...PUBLIC_URL_OPTIONS },
  takesConfig: false,
  check: (args) => findOrgProblems(args),
  async run(args, io) {
    const { directory, ...address } = await resolveDirectoryAndUrl(args, io);
    const urls = createUrls(args, io, address);
    return withOrganization(args, directory, ({ store }, organization) => {
      const hooks = store.inboundWebhooks.list(organization.id);
      const row = (hook: InboundWebhookRow): string[] => {
        const { kind, disabled_at, last_received_at: at } = hook;
        return [kind, at === null ? "never" : formatTimestamp(at), disabled_at === null ? urls.of(hook) : "disabled"];
      };
      const text = renderTable(
        ["KIND", "LAST CALL", "ADDRESS"],
        hooks.map(row),
        `${organization.name} has no inbound webhooks`,
      );
      const print = hooks.some(({ disabled_at }) => disabled_at === null) ? urls.print : printLater(args, io);
      return print({ webhooks: hooks.map(present) }, text);
    });
  },
};

export const webhookRotate: Command = {
  name: "webhook rotate-secret",
  summary: "Replace the secret of an inbound webhook",
  usage: "KIND --org NAME [--data DIRECTORY]",
  details: [
    "The old secret becomes invalid at once, also on a running server: enter the new one in the other product " +
      "right away.",
  ],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  check: (args) => [...findOrgProblems(args), ...findKindProblems(args)],
  async run(args, io) {
    const kind = kindOf(args);
    return withOrganization(args, await resolveDataDirectory(args, io), ({ store }, organization) => {
      const hook = requireWebhook(store, organization, kind);
      const secret = newSecret();
      createOperatorChanges(store, "webhook rotate-secret").setWebhookSecret(organization.id, hook, secret);
      return printLater(args, io)({ ...present(hook), secret }, `secret: ${secret}\n`);
    });
  },
};

export const webhookDisable: Command = {
  name: "webhook disable",
  summary: "Stop accepting an inbound webhook",
  usage: "KIND --org NAME [--data DIRECTORY]",
  details: ["The address becomes invalid at once and permanently. Recorded data and the service account stay."],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: KIND,
  check: (args) => [...findOrgProblems(args), ...findKindProblems(args)],
  async run(args, io) {
    const kind = kindOf(args);
    return withOrganization(args, await resolveDataDirectory(args, io), ({ store }, organization) => {
      const hook = requireWebhook(store, organization, kind);
      createOperatorChanges(store, "webhook disable").disableWebhook(organization.id, hook);
      return printLater(args, io)({ disabled: kind }, `disabled the ${kind} webhook of ${organization.name}\n`);
    });
  },
};

/** Runs `work` on the organization that --org names in one transaction, and calls its result after the commit. */
function withOrganization(
  args: Args,
  directory: string,
  work: (data: Data, organization: OrganizationRow) => () => void,
): number {
  const name = args.texts.get("org")?.[0] ?? "";
  const print = withData(directory, (data) =>
    runTransaction(data, () => work(data, requireOrganization(data.store, name))),
  );
  print();
  return EXIT.done;
}

/** Returns a function that prints the output; called after the commit, so that everything printed has happened. */
type Printer = (json: object, text: string) => () => void;

const printLater =
  (args: Args, io: Io): Printer =>
  (json, text) =>
  () =>
    io.stdout(args.switches.has("json") ? `${JSON.stringify(json)}\n` : text);

/** The addresses to enter in the other product. `print` is for output that contains such an address. */
type WebhookUrls = { of(hook: InboundWebhookRow): string; print: Printer };

function createUrls(args: Args, io: Io, { baseUrl, isDerived }: { baseUrl: string; isDerived: boolean }): WebhookUrls {
  const hint =
    "base-url is not set, so the address is derived from the listen address: give the server's --base-url URL\n";
  return {
    of: (hook) => `${baseUrl}${pathOf(hook)}`,
    print: (json, text) => () => {
      printLater(args, io)(json, text)();
      if (isDerived && !args.switches.has("json")) io.stderr(hint);
    },
  };
}

const findOrgProblems = ({ texts }: Args): string[] =>
  texts.has("org") ? [] : ["--org: give the name of an organization"];

const findKind = ({ positionals: [word] }: Args): WebhookKind | undefined => WEBHOOK_KINDS.find((one) => one === word);

const findKindProblems = (args: Args): string[] =>
  args.positionals.length === 0 || findKind(args)
    ? []
    : [
        `there is no webhook ${JSON.stringify(truncate(args.positionals[0] ?? "", 100))}: ` +
          `give ${joinAlternatives(WEBHOOK_KINDS)}`,
      ];

function kindOf(args: Args): WebhookKind {
  const kind = findKind(args);
  if (!kind) throw new Error("KIND passed the check of the command line but is invalid");
  return kind;
}

/** Reads how flows of scans without a flow are named; `from` is not validated yet. */
const flowNamesOf = ({ texts }: Args): { from: string; prefix: string; suffix: string } => ({
  from: texts.get("flow-name")?.[0] ?? "key",
  prefix: texts.get("flow-prefix")?.[0] ?? "",
  suffix: texts.get("flow-suffix")?.[0] ?? "",
});

function findSettingsProblems(args: Args): string[] {
  const kind = findKind(args);
  const given = Object.keys(FLOW_OPTIONS).filter((name) => args.texts.has(name));
  if (kind !== undefined && kind !== "sonar")
    return given.map((name) => `--${name}: only the sonar webhook has this option`);
  const { from, prefix, suffix } = flowNamesOf(args);
  const problems = isFlowNameSource(from) ? [] : ["--flow-name: give key or name"];
  for (const [option, value] of [
    ["flow-prefix", prefix],
    ["flow-suffix", suffix],
  ] as const) {
    if (!matches(SONAR_NAME_AFFIX, value)) problems.push(`--${option}: give up to 100 letters, digits and . - _ ~`);
  }
  return problems;
}

const isFlowNameSource = (text: string): text is SonarFlowNames["from"] => text === "key" || text === "name";

function settingsOf(args: Args, kind: WebhookKind): SonarFlowNames | Record<string, never> {
  const { from, prefix, suffix } = flowNamesOf(args);
  return kind === "sonar" && isFlowNameSource(from) ? { from, prefix, suffix } : {};
}

function requireWebhook(store: Store, organization: OrganizationRow, kind: WebhookKind): InboundWebhookRow {
  const hook = store.inboundWebhooks.findEnabled(organization.id, kind);
  if (!hook)
    throw new CommandError(
      `${organization.name} has no enabled ${kind} webhook; assay webhook enable ${kind} creates one`,
    );
  return hook;
}

const pathOf = ({ kind, public_id }: Pick<InboundWebhookRow, "kind" | "public_id">): string =>
  `/api/v2/webhooks/${kind}/${public_id}`;

const present = (hook: InboundWebhookRow) => ({
  kind: hook.kind,
  path: pathOf(hook),
  settings: readStoredJson(hook.settings_json, isObject),
  created_at: hook.created_at,
  disabled_at: hook.disabled_at,
  last_received_at: hook.last_received_at,
});
