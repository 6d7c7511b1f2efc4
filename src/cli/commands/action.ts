/** `assay action secret`: the secrets that sign what is sent to webhooks. Works with and without a running server. */
import { newSecret } from "../../server/app.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { NOTIFICATION_TYPES } from "../../domain/notification/key-expiry.ts";
import type { Store } from "../../store/index.ts";
import type { TargetOwner } from "../../store/notifications/notification-targets.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT, oneLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { requireOrganization } from "../lookup.ts";

export const actionSecret: Command = {
  name: "action secret",
  summary: "Show the secrets that sign what is sent to webhooks, or replace them",
  usage: `ORG (NUMBER | ${NOTIFICATION_TYPES.join(" | ")}) [--rotate] --data DIRECTORY`,
  details: [
    "NUMBER is that of an action; the other word stands for what is configured in ORG for notifications of that type.",
    "Prints one line for each WEBHOOK: its secret and its address. A receiver checks with it that a message is from here.",
    "With --rotate each of them gets a new secret first, with which everything is signed from then on, also by a running server.",
  ],
  options: { rotate: { kind: "switch", description: "Make new secrets; the old ones are gone" }, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 2, most: 2, names: ["ORG", "NUMBER"] },
  check: ({ positionals: [, of] }) =>
    of === undefined || /^[1-9]\d{0,14}$/.test(of) || isNotificationType(of)
      ? []
      : [`${JSON.stringify(truncate(of, 100))} is not the number of an action, and not a type of notifications`],
  async run(args, io) {
    const [org = "", of = ""] = args.positionals;
    const directory = await dataDirectory(args, io);
    const webhooks = withData(directory, (data) => {
      const owner = ownerOf(data.store, org, of);
      if (args.switches.has("rotate"))
        change(data, () => {
          const operator = operatorOf(data.store, "action secret");
          for (const { id } of data.store.notificationTargets.listSecrets(owner))
            operator.setTargetSecret(owner.organizationId, of, id, newSecret());
        });
      return data.store.notificationTargets.listSecrets(owner);
    });
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ webhooks: webhooks.map(({ webhook, secret }) => ({ webhook, secret })) })}\n`);
    else if (webhooks.length === 0) io.stderr("there is no WEBHOOK among the targets\n");
    else io.stdout(webhooks.map(({ webhook, secret }) => `${secret}  ${oneLine(webhook)}\n`).join(""));
    return EXIT.done;
  },
};

const isNotificationType = (word: string): boolean => (NOTIFICATION_TYPES as readonly string[]).includes(word);

/** @throws a command failure where there is no such organization or action. */
function ownerOf(store: Store, org: string, of: string): TargetOwner {
  const organization = requireOrganization(store, org);
  if (isNotificationType(of)) return { organizationId: organization.id, notificationType: of };
  const action = store.actions.find(organization.id, Number(of));
  if (!action) throw commandFailure(`Action '${of}' does not exist in organization '${org}'`);
  return { organizationId: organization.id, actionId: action.id };
}
