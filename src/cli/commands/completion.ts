/** `assay completion`: scripts that complete command lines in a shell, made of the table of commands. */
import { truncate } from "../../domain/text/excerpt.ts";
import { listed } from "../args.ts";
import { bashCompletion } from "../install/completion-bash.ts";
import { fishCompletion } from "../install/completion-fish.ts";
import { vocabularyOf } from "../install/completion-words.ts";
import type { Vocabulary } from "../install/completion-words.ts";
import { zshCompletion } from "../install/completion-zsh.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

const SHELLS: Readonly<Record<string, (vocabulary: Vocabulary) => string>> = {
  bash: bashCompletion,
  zsh: zshCompletion,
  fish: fishCompletion,
};

/** `commands` gives the table of commands, which this command is part of itself. */
export const completion = (commands: () => readonly Command[]): Command => ({
  name: "completion",
  summary: "Print a script that completes command lines in bash, zsh or fish",
  usage: Object.keys(SHELLS).join("|"),
  details: [
    "bash: assay completion bash > /etc/bash_completion.d/assay",
    "zsh:  assay completion zsh > /usr/local/share/zsh/site-functions/_assay",
    "fish: assay completion fish > /etc/fish/completions/assay.fish",
  ],
  options: {},
  takesConfig: false,
  positionals: { least: 1, most: 1, names: [Object.keys(SHELLS).join("|")], words: Object.keys(SHELLS) },
  check({ positionals: [shell] }) {
    if (shell === undefined || Object.hasOwn(SHELLS, shell)) return [];
    return [`there is no completion for ${JSON.stringify(truncate(shell, 100))}: give ${listed(Object.keys(SHELLS))}`];
  },
  async run(args, io) {
    const [shell = ""] = args.positionals;
    const script = SHELLS[shell];
    if (!script) throw new Error(`the check of the command line let the shell ${shell} pass`);
    io.stdout(script(vocabularyOf(commands())));
    return EXIT.done;
  },
});
