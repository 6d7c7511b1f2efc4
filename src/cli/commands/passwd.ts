/** `assay user passwd`: sets or removes the password of a user. */
import { findPasswordProblem } from "../../domain/login/password.ts";
import { createPasswordHasher } from "../../auth/password-hashing.ts";
import { DATA_OPTIONS, resolveDataDirectory, readText } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
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
    const { name } = withData(directory, ({ store }) => requireUser(store, word));
    const hash = removes ? null : await createPasswordHasher().hash(await readNewPassword(io, name));
    const { outcome, sessions } = withData(directory, (data) =>
      runTransaction(data, () => {
        const user = requireUser(data.store, word);
        const operator = createOperatorChanges(data.store, "user passwd");
        if (hash) return { outcome: "set", sessions: operator.setPassword(user, hash) };
        const removed = operator.removePassword(user);
        return { outcome: removed.had ? "removed" : "unchanged", sessions: removed.sessions };
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ user: name, password: outcome, ended_sessions: sessions })}\n`);
    else {
      const change = outcome === "unchanged" ? `${name} has no password` : `${outcome} the password of ${name}`;
      io.stdout(`${change}, ended ${sessions} ${sessions === 1 ? "session" : "sessions"}\n`);
    }
    return EXIT.done;
  },
};

/** Reads the password from the terminal or from standard input. @throws CommandError when it is not acceptable */
async function readNewPassword(io: Io, name: string): Promise<string> {
  const password = io.stdinIsTty ? await askTwice(io, name) : ((await readText(io, "-")).split(/\r?\n/, 1)[0] ?? "");
  const problem = findPasswordProblem(password, name);
  if (problem !== null) throw new CommandError(`nothing was changed: ${problem}`);
  return password;
}

async function askTwice(io: Io, name: string): Promise<string> {
  const password = await io.askHidden(`New password of ${name}: `);
  const again = password === null ? null : await io.askHidden("Again: ");
  if (password === null || again === null) throw new CommandError("nothing was changed: no password was entered");
  if (password !== again) throw new CommandError("nothing was changed: the two passwords differ");
  return password;
}
