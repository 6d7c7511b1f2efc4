/** Set-up for tests of messages: actions, and the content of the outbox. */
import type { EnvironmentTrigger, FlowTrigger } from "../../../src/domain/notification/triggers.ts";
import { fresh } from "../../given.ts";
import type { TestServer } from "../../given.ts";

type At = { org: string; key: string };
type Json = Record<string, any>;

/** A message in the outbox. */
export type Sent = { type: string; subject: string; queue: string; target: Json; body: Json };

export const HOOK = "https://hooks.example.com/a";

export function actionsIn(server: TestServer) {
  return {
    /** Creates an environment or flow action and returns its name. */
    async action(
      at: At,
      {
        name = fresh("action"),
        triggers,
        targets = [{ type: "WEBHOOK", webhook: HOOK }],
        ...places
      }: { name?: string; triggers: readonly (EnvironmentTrigger | FlowTrigger)[]; targets?: readonly Json[] } & (
        | { environments: readonly string[] }
        | { flows: readonly string[] }
      ),
    ): Promise<string> {
      const kind = "flows" in places ? "flows" : "environments";
      const { status, text } = await server.call("PUT", `/actions/${at.org}/${kind}`, {
        key: at.key,
        body: { name, triggers, targets, ...places },
      });
      if (status !== 201) throw new Error(`action: ${status} ${text}`);
      return name;
    },
    /** The messages in the outbox of an organization after all jobs are done, oldest first. */
    async sent({ org }: At): Promise<Sent[]> {
      await server.settled();
      const rows = server.db
        .prepare(
          "SELECT d.type, d.subject, d.queue, d.target_json, d.message_json FROM deliveries d " +
            "JOIN organizations o ON o.id = d.organization_id WHERE o.name = ? ORDER BY d.id",
        )
        .all(org) as Json[];
      return rows.map(({ type, subject, queue, target_json, message_json }) => ({
        type,
        subject,
        queue,
        target: JSON.parse(target_json),
        body: JSON.parse(message_json),
      }));
    },
    /** How many jobs that make messages are pending. */
    waiting: (): number => server.db.prepare("SELECT count(*) FROM jobs WHERE kind = 'notify'").pluck().get() as number,
  };
}
