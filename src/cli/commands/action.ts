/** `assay action secret`: the secrets that sign webhook messages. Works with and without a running server. */
import { truncate } from "../../domain/text/excerpt.ts";
import { NOTIFICATION_TYPES } from "../../domain/notification/key-expiry.ts";
import type { Store } from "../../store/index.ts";
import type { TargetOwner } from "../../store/notifications/notification-targets.ts";
import { joinAlternatives } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import { CommandError, EXIT, escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { requireOrganization } from "../lookup.ts";
import { newSecret } from "../../clock.ts";

export const actionSecret: Command = {
  name: "action secret",
  summary: "Show or replace the secrets that sign webhook messages",
  usage: `ORG (NUMBER | ${NOTIFICATION_TYPES.join(" | ")}) [--rotate] [--data DIRECTORY]`,
  details: [
    "NUMBER selects an action of ORG; a notification type selects the targets that ORG configured for that type. " +
      "Prints the secret and the URL of each WEBHOOK target, one per line. A receiver uses the secret to verify " +
      "that a message comes from this server. With --rotate each target gets a new secret first; a running server " +
      "signs with it at once.",
  ],
  options: { rotate: { kind: "switch", description: "Replace the secrets; the old ones are lost" }, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 2, max: 2, names: ["ORG", "NUMBER"] },
  check: ({ positionals: [, of] }) =>
    of === undefined || /^[1-9]\d{0,14}$/.test(of) || isNotificationType(of)
      ? []
      : [
          `${JSON.stringify(truncate(of, 100))} is neither the number of an action nor a notification type: ` +
            `give a number or ${joinAlternatives(NOTIFICATION_TYPES)}`,
        ],
  async run(args, io) {
    const [org = "", of = ""] = args.positionals;
    const directory = await resolveDataDirectory(args, io);
    const webhooks = withData(directory, (data) => {
      const owner = requireTargetOwner(data.store, org, of);
      if (args.switches.has("rotate"))
        runTransaction(data, () => {
          const operator = createOperatorChanges(data.store, "action secret");
          for (const { id } of data.store.notificationTargets.listSecrets(owner))
            operator.setTargetSecret(owner.organizationId, { id, owner: of }, newSecret());
        });
      return data.store.notificationTargets.listSecrets(owner);
    });
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ webhooks: webhooks.map(({ webhook, secret }) => ({ webhook, secret })) })}\n`);
    else if (webhooks.length === 0) io.stderr("none of the targets is a WEBHOOK\n");
    else io.stdout(webhooks.map(({ webhook, secret }) => `${secret}  ${escapeLine(webhook)}\n`).join(""));
    return EXIT.done;
  },
};

const isNotificationType = (word: string): boolean => (NOTIFICATION_TYPES as readonly string[]).includes(word);

/** @throws CommandError when there is no such organization or action */
function requireTargetOwner(store: Store, org: string, of: string): TargetOwner {
  const organization = requireOrganization(store, org);
  if (isNotificationType(of)) return { organizationId: organization.id, notificationType: of };
  const action = store.actions.find(organization.id, Number(of));
  if (!action) throw new CommandError(`Action '${of}' does not exist in organization '${org}'`);
  return { organizationId: organization.id, actionId: action.id };
}
