/** `assay user passwd`: the password of a user, set and taken away by the operator. */
import { passwordProblem } from "../../domain/login/password.ts";
import { createPasswords } from "../../auth/password-hashing.ts";
import { DATA_OPTIONS, dataDirectory, readText } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { requireUser } from "../lookup.ts";

export const userPasswd: Command = {
  name: "user passwd",
  summary: "Set the password with which a user signs in",
  usage: "USER [--remove] --data DIRECTORY",
  details: [
    "USER is a login name or an e-mail address.",
    "Asks twice at a terminal, without showing what is typed; else the first line of standard input is the password. It has at least 12",
    "characters and at most 1024 bytes. All sessions of the user end. --remove takes the password away: no password signs in then.",
  ],
  options: { remove: { kind: "switch", description: "Take the password away" }, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const word = args.positionals[0] ?? "";
    const removes = args.switches.has("remove");
    const { name } = withData(directory, ({ store }) => requireUser(store, word));
    const hash = removes ? null : await createPasswords().hash(await newPassword(io, name));
    const { outcome, sessions } = withData(directory, (data) =>
      change(data, () => {
        const user = requireUser(data.store, word);
        const operator = operatorOf(data.store, "user passwd");
        if (hash) return { outcome: "set", sessions: operator.setPassword(user, hash) };
        const removed = operator.removePassword(user);
        return { outcome: removed.had ? "removed" : "unchanged", sessions: removed.sessions };
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ user: name, password: outcome, ended_sessions: sessions })}\n`);
    else
      io.stdout(
        `${outcome === "unchanged" ? "there was no password" : `${outcome} the password`} of ${name}, ended ${sessions} ${sessions === 1 ? "session" : "sessions"}\n`,
      );
    return EXIT.done;
  },
};

/** @throws a command failure. */
async function newPassword(io: Io, name: string): Promise<string> {
  const password = io.stdinIsTty ? await askTwice(io, name) : ((await readText(io, "-")).split(/\r?\n/, 1)[0] ?? "");
  const problem = passwordProblem(password, name);
  if (problem !== null) throw commandFailure(`nothing was changed: ${problem}`);
  return password;
}

async function askTwice(io: Io, name: string): Promise<string> {
  const password = await io.askHidden(`New password of ${name}: `);
  const again = password === null ? null : await io.askHidden("Again: ");
  if (password === null || again === null) throw commandFailure("nothing was changed: no password was given");
  if (password !== again) throw commandFailure("nothing was changed: the two passwords differ");
  return password;
}
