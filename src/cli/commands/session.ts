/** `assay session`: lists and ends login sessions. Works with and without a running server. */
import { endUserSession, endUserSessions, listSessions } from "../../api/operator/sessions.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import type { Command } from "../framework.ts";
import { changeAsOperator, withOperator } from "../operator.ts";
import type { AnswerOf } from "../operator.ts";
import { countOf, printResult } from "../output.ts";
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
    const sessions = await withOperator(directory, { command: "session list" }, ({ call, store }) =>
      call(listSessions, { query: { user: word === undefined ? null : requireUser(store, word).name } }),
    );
    const headers = ["ID", "USER", "METHOD", "ADDRESS", "SINCE", "LAST USED", "BROWSER"];
    return printResult(io, args, {
      json: { sessions },
      text: renderTable(headers, sessions.map(sessionCells), "no open sessions"),
    });
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
    const { ended_sessions: ended } = await changeAsOperator(directory, { command: "session revoke" }, (operator) => {
      if (id !== undefined) return operator.call(endUserSession, { params: { session_id: id } });
      const user = word === undefined ? null : requireUser(operator.store, word).name;
      return operator.call(endUserSessions, { query: { user } });
    });
    return printResult(io, args, {
      json: { ended_sessions: ended },
      text: `ended ${countOf(ended, "session")}\n`,
    });
  },
};

const sessionCells = ({
  id,
  user,
  method,
  address,
  user_agent,
  created_at,
  last_used_at,
}: AnswerOf<typeof listSessions>[number]): string[] => [
  id,
  user,
  method,
  address,
  formatTimestamp(created_at),
  formatTimestamp(last_used_at),
  user_agent,
];
