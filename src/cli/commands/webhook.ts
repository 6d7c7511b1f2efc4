/** `assay webhook`: manages inbound webhooks of SonarQube and LaunchDarkly. Works with and without a running server. */
import {
  deleteInboundWebhook,
  putInboundWebhook,
  rotateInboundWebhookSecret,
} from "../../api/notifications/inbound-webhook-settings.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { SONAR_NAME_AFFIX } from "../../domain/inbound-webhook/sonar.ts";
import type { SonarFlowNames } from "../../domain/inbound-webhook/sonar.ts";
import { matches } from "../../domain/names.ts";
import { WEBHOOK_KINDS } from "../../store/notifications/inbound-webhooks.ts";
import type { InboundWebhookRow, WebhookKind } from "../../store/notifications/inbound-webhooks.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import { joinAlternatives } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory, resolveDirectoryAndUrl, PUBLIC_URL_OPTIONS } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { CommandError } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { changeAsOperator } from "../operator.ts";
import type { Operator } from "../operator.ts";
import { printResult, optionOf } from "../output.ts";
import { renderTable } from "../table.ts";
import { findOrgProblems, requireOrganization, formatTimestamp } from "../lookup.ts";

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
    const settings = settingsOf(args);
    const { directory, ...address } = await resolveDirectoryAndUrl(args, io);
    const urls = createUrls(args, io, address);
    const { row, secret } = await changeWebhook(
      args,
      { directory, command: "webhook enable" },
      async ({ call, params }) => {
        const answer = await call(putInboundWebhook, { params, ...(kind === "sonar" ? { body: settings } : {}) });
        return "secret" in answer ? answer.secret : null;
      },
    );
    if (secret === null) {
      const name = `the ${kind} webhook of ${orgOf(args)}`;
      const text = `${name} is already enabled; its address and secret have not changed\n${urls.of(row)}\n`;
      return urls.print(present(row), text);
    }
    return urls.print({ ...present(row), secret }, `address: ${urls.of(row)}\nsecret:  ${secret}\n`);
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
    const hooks = withData(directory, ({ store }) =>
      store.inboundWebhooks.list(requireOrganization(store, orgOf(args)).id),
    );
    const row = (hook: InboundWebhookRow): string[] => {
      const { kind, disabled_at, last_received_at: at } = hook;
      return [kind, at === null ? "never" : formatTimestamp(at), disabled_at === null ? urls.of(hook) : "disabled"];
    };
    const headers = ["KIND", "LAST CALL", "ADDRESS"];
    const text = renderTable(headers, hooks.map(row), `${orgOf(args)} has no inbound webhooks`);
    const json = { webhooks: hooks.map(present) };
    return hooks.some(({ disabled_at }) => disabled_at === null)
      ? urls.print(json, text)
      : printResult(io, args, { json, text });
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
    const directory = await resolveDataDirectory(args, io);
    const { row, secret } = await changeWebhook(
      args,
      { directory, command: "webhook rotate-secret" },
      async (webhook) => {
        requireWebhook(webhook, kind);
        return (await webhook.call(rotateInboundWebhookSecret, { params: webhook.params })).secret;
      },
    );
    return printResult(io, args, { json: { ...present(row), secret }, text: `secret: ${secret}\n` });
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
    const directory = await resolveDataDirectory(args, io);
    await changeAsOperator(directory, { command: "webhook disable" }, async ({ call, store }) => {
      const organization = requireOrganization(store, orgOf(args));
      requireWebhook(
        { hook: store.inboundWebhooks.findEnabled(organization.id, kind), params: { org: organization.name } },
        kind,
      );
      return call(deleteInboundWebhook, { params: { org: organization.name, webhook_kind: kind } });
    });
    return printResult(io, args, {
      json: { disabled: kind },
      text: `disabled the ${kind} webhook of ${orgOf(args)}\n`,
    });
  },
};

/** `hook` is the enabled webhook of this kind, null without one. */
type Webhook = Pick<Operator, "call"> & {
  params: { org: string; webhook_kind: WebhookKind };
  hook: InboundWebhookRow | null;
};

/** Changes the webhook that the command line names. @returns its row, and the secret that the change answered */
const changeWebhook = (
  args: Args,
  { directory, command }: { directory: string; command: string },
  change: (webhook: Webhook) => Promise<string | null>,
): Promise<{ row: InboundWebhookRow; secret: string | null }> =>
  changeAsOperator(directory, { command }, async ({ call, store }) => {
    const { id, name } = requireOrganization(store, orgOf(args));
    const kind = kindOf(args);
    const find = () => store.inboundWebhooks.findEnabled(id, kind);
    const secret = await change({ call, params: { org: name, webhook_kind: kind }, hook: find() });
    return { row: find() as InboundWebhookRow, secret };
  });

const orgOf = (args: Args): string => optionOf(args, "org") ?? "";

/** The addresses to enter in the other product. `print` is for output that contains such an address. */
type WebhookUrls = { of(hook: InboundWebhookRow): string; print(json: object, text: string): number };

function createUrls(args: Args, io: Io, { baseUrl, isDerived }: { baseUrl: string; isDerived: boolean }): WebhookUrls {
  const hint =
    "base-url is not set, so the address is derived from the listen address: give the server's --base-url URL\n";
  return {
    of: (hook) => `${baseUrl}${pathOf(hook)}`,
    print: (json, text) => printResult(io, args, { json, text, notice: isDerived ? hint : "" }),
  };
}

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

/** Reads how flows of scans without a flow are named; not validated yet. */
const settingsOf = (args: Args) => ({
  flow_name: (optionOf(args, "flow-name") ?? "key") as SonarFlowNames["from"],
  flow_prefix: optionOf(args, "flow-prefix") ?? "",
  flow_suffix: optionOf(args, "flow-suffix") ?? "",
});

function findSettingsProblems(args: Args): string[] {
  const kind = findKind(args);
  const given = Object.keys(FLOW_OPTIONS).filter((name) => args.texts.has(name));
  if (kind !== undefined && kind !== "sonar")
    return given.map((name) => `--${name}: only the sonar webhook has this option`);
  const { flow_name: from, flow_prefix: prefix, flow_suffix: suffix } = settingsOf(args);
  const problems = ["key", "name"].includes(from) ? [] : ["--flow-name: give key or name"];
  for (const [option, value] of [
    ["flow-prefix", prefix],
    ["flow-suffix", suffix],
  ] as const) {
    if (!matches(SONAR_NAME_AFFIX, value)) problems.push(`--${option}: give up to 100 letters, digits and . - _ ~`);
  }
  return problems;
}

function requireWebhook(
  { hook, params }: Pick<Webhook, "hook"> & { params: { org: string } },
  kind: WebhookKind,
): void {
  if (hook === null)
    throw new CommandError(`${params.org} has no enabled ${kind} webhook; assay webhook enable ${kind} creates one`);
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
