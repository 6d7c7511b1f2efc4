/** `assay session`: lists and ends login sessions. Works with and without a running server. */
import type { Store } from "../../store/index.ts";
import type { SessionRow } from "../../store/accounts/sessions.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { renderTable } from "../table.ts";
import { requireUser, formatTimestamp } from "../lookup.ts";

const USER_OPTION = {
  kind: "text",
  placeholder: "USER",
  description: "Only sessions of this user: a login name or an e-mail address",
} as const;

export const sessionList: Command = {
  name: "session list",
  summary: "List login sessions",
  usage: "[--user USER] [--data DIRECTORY]",
  details: ["The time of the last use is up to a minute old while a server runs."],
  options: { user: USER_OPTION, ...DATA_OPTIONS },
  takesConfig: false,
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const word = args.texts.get("user")?.[0];
    const sessions = withData(directory, ({ store }) =>
      store.sessions.list(word === undefined ? null : requireUser(store, word).id).map((row) => present(store, row)),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ sessions })}\n`);
    else {
      const headers = ["ID", "USER", "METHOD", "ADDRESS", "SINCE", "LAST USED", "BROWSER"];
      io.stdout(renderTable(headers, sessions.map(sessionCells), "no open sessions"));
    }
    return EXIT.done;
  },
};

export const sessionRevoke: Command = {
  name: "session revoke",
  summary: "End login sessions",
  usage: "ID | --user USER | --all [--data DIRECTORY]",
  details: [
    "assay session list shows the ID. The sessions end with their next request, also on a running server. A user " +
      "who is still allowed to can sign in again.",
  ],
  options: {
    user: USER_OPTION,
    all: { kind: "switch", description: "End the sessions of all users" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 0, max: 1, names: ["ID"] },
  check: ({ positionals: [id], texts, switches }) =>
    [id !== undefined, texts.has("user"), switches.has("all")].filter(Boolean).length === 1
      ? []
      : ["give exactly one of ID, --user USER and --all"],
  async run(args, io) {
    const id = args.positionals[0];
    const word = args.texts.get("user")?.[0];
    const directory = await resolveDataDirectory(args, io);
    const ended = withData(directory, (data) =>
      runTransaction(data, () => {
        const { store } = data;
        const operator = createOperatorChanges(store, "session revoke");
        if (id !== undefined) {
          const sessionCells = store.sessions.find(id);
          if (!sessionCells)
            throw new CommandError(
              `there is no open session ${JSON.stringify(id.slice(0, 100))}; see assay session list`,
            );
          return Number(operator.endSession(store.users.get(sessionCells.user_id), id));
        }
        const users =
          word === undefined
            ? [...new Set(store.sessions.list().map(({ user_id }) => user_id))].map(store.users.get)
            : [requireUser(store, word)];
        return users.reduce((sum, user) => sum + operator.endSessions(user), 0);
      }),
    );
    io.stdout(
      args.switches.has("json")
        ? `${JSON.stringify({ ended_sessions: ended })}\n`
        : `ended ${ended} ${ended === 1 ? "session" : "sessions"}\n`,
    );
    return EXIT.done;
  },
};

type PresentedSession = ReturnType<typeof present>;
const present = (store: Store, row: SessionRow) => ({
  id: row.public_id,
  user: store.users.get(row.user_id).name,
  method: row.method,
  address: row.address,
  user_agent: row.user_agent,
  created_at: row.created_at,
  last_used_at: row.last_used_at,
  expires_at: row.expires_at,
});

const sessionCells = ({
  id,
  user,
  method,
  address,
  user_agent,
  created_at,
  last_used_at,
}: PresentedSession): string[] => [
  id,
  user,
  method,
  address,
  formatTimestamp(created_at),
  formatTimestamp(last_used_at),
  user_agent,
];
