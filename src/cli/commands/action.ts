/** `assay action secret`: the secrets that sign webhook messages. Works with and without a running server. */
import { listTargetSecrets, rotateTargetSecrets } from "../../api/operator/target-secrets.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { NOTIFICATION_TYPES } from "../../domain/notification/key-expiry.ts";
import { joinAlternatives } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { requireOrganization } from "../lookup.ts";
import { changeAsOperator } from "../operator.ts";
import { printResult } from "../output.ts";

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
    const [org = "", owner = ""] = args.positionals;
    const directory = await resolveDataDirectory(args, io);
    const rotates = args.switches.has("rotate");
    const webhooks = await changeAsOperator(directory, { command: "action secret" }, ({ call, store }) =>
      call(rotates ? rotateTargetSecrets : listTargetSecrets, {
        params: { org: requireOrganization(store, org).name, owner },
      }),
    );
    return printResult(io, args, {
      json: { webhooks },
      text: webhooks.map(({ webhook, secret }) => `${secret}  ${escapeLine(webhook)}\n`).join(""),
      notice: webhooks.length === 0 ? "none of the targets is a WEBHOOK\n" : "",
    });
  },
};

const isNotificationType = (word: string): boolean => (NOTIFICATION_TYPES as readonly string[]).includes(word);
