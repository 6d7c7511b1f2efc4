/** `assay session`: who is signed in, and putting an end to it. Works with and without a running server. */
import type { Store } from "../../store/index.ts";
import type { SessionRow } from "../../store/accounts/sessions.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireUser, shownTime } from "../lookup.ts";

const USER_OPTION = {
  kind: "text",
  placeholder: "USER",
  description: "Of this user alone: a login name or an e-mail address",
} as const;

export const sessionList: Command = {
  name: "session list",
  summary: "List who is signed in",
  usage: "[--user USER] --data DIRECTORY",
  details: ["The last use is up to a minute old while a server runs."],
  options: { user: USER_OPTION, ...DATA_OPTIONS },
  takesConfig: false,
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const word = args.texts.get("user")?.[0];
    const sessions = withData(directory, ({ store }) =>
      store.sessions.list(word === undefined ? null : requireUser(store, word).id).map((row) => present(store, row)),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ sessions })}\n`);
    else {
      const headers = ["ID", "USER", "METHOD", "ADDRESS", "SINCE", "LAST USED", "BROWSER"];
      io.stdout(tableText(headers, sessions.map(row), "nobody is signed in"));
    }
    return EXIT.done;
  },
};

export const sessionRevoke: Command = {
  name: "session revoke",
  summary: "End sessions at once",
  usage: "ID | --user USER | --all --data DIRECTORY",
  details: [
    "ID is one of assay session list. Ends it with the next request, also on a running server; whoever still may can sign in again.",
  ],
  options: { user: USER_OPTION, all: { kind: "switch", description: "Of everybody" }, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 0, most: 1, names: ["ID"] },
  check: ({ positionals: [id], texts, switches }) =>
    [id !== undefined, texts.has("user"), switches.has("all")].filter(Boolean).length === 1
      ? []
      : ["give ID, --user USER or --all, one of them"],
  async run(args, io) {
    const id = args.positionals[0];
    const word = args.texts.get("user")?.[0];
    const directory = await dataDirectory(args, io);
    const ended = withData(directory, (data) =>
      change(data, () => {
        const { store } = data;
        const operator = operatorOf(store, "session revoke");
        if (id !== undefined) {
          const row = store.sessions.find(id);
          if (!row) throw commandFailure(`there is no open session ${JSON.stringify(id.slice(0, 100))}`);
          return Number(operator.endSession(store.users.get(row.user_id), id));
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

type Presented = ReturnType<typeof present>;
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

const row = ({ id, user, method, address, user_agent, created_at, last_used_at }: Presented): string[] => [
  id,
  user,
  method,
  address,
  shownTime(created_at),
  shownTime(last_used_at),
  user_agent,
];
