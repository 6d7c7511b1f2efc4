/** `assay user passwd`: sets or removes the password of a user. */
import { removeUserPassword, setUserPassword } from "../../api/operator/users.ts";
import { DATA_OPTIONS, resolveDataDirectory, readText } from "../command-config.ts";
import { CommandError } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { withOperator } from "../operator.ts";
import { countOf, printResult } from "../output.ts";
import { requireUser } from "../lookup.ts";

export const userPasswd: Command = {
  name: "user passwd",
  summary: "Set or remove the password of a user",
  usage: "USER [--remove] [--data DIRECTORY]",
  details: [
    "USER is a login name or an e-mail address.",
    "Prompts twice on a terminal, without echo; otherwise reads the password from the first line of standard " +
      "input. It needs at least 12 characters and at most 1024 bytes. Ends all sessions of the user. After --remove " +
      "the user cannot sign in with a password.",
  ],
  options: { remove: { kind: "switch", description: "Remove the password" }, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const word = args.positionals[0] ?? "";
    const removes = args.switches.has("remove");
    const { user, outcome, sessions } = await withOperator(
      directory,
      { command: "user passwd" },
      async ({ call, store }) => {
        const params = { user: requireUser(store, word).name };
        if (removes) {
          const { changed, ended_sessions } = await call(removeUserPassword, { params });
          return { ...params, outcome: changed ? "removed" : "unchanged", sessions: ended_sessions };
        }
        const password = await readNewPassword(io, params.user);
        const { ended_sessions } = await call(setUserPassword, { params, body: { password } });
        return { ...params, outcome: "set", sessions: ended_sessions };
      },
    );
    const change = outcome === "unchanged" ? `${user} has no password` : `${outcome} the password of ${user}`;
    return printResult(io, args, {
      json: { user, password: outcome, ended_sessions: sessions },
      text: `${change}, ended ${countOf(sessions, "session")}\n`,
    });
  },
};

/** Reads the password from the terminal or from standard input. @throws CommandError when none is entered */
const readNewPassword = async (io: Io, name: string): Promise<string> =>
  io.stdinIsTty ? askTwice(io, name) : ((await readText(io, "-")).split(/\r?\n/, 1)[0] ?? "");

async function askTwice(io: Io, name: string): Promise<string> {
  const password = await io.askHidden(`New password of ${name}: `);
  const again = password === null ? null : await io.askHidden("Again: ");
  if (password === null || again === null) throw new CommandError("nothing was changed: no password was entered");
  if (password !== again) throw new CommandError("nothing was changed: the two passwords differ");
  return password;
}
