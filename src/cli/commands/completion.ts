/** `assay completion`: shell completion scripts, generated from the command table. */
import { truncate } from "../../domain/text/excerpt.ts";
import { joinAlternatives } from "../args.ts";
import { bashCompletion } from "../install/completion-bash.ts";
import { fishCompletion } from "../install/completion-fish.ts";
import { createVocabulary } from "../install/completion-words.ts";
import type { Vocabulary } from "../install/completion-words.ts";
import { zshCompletion } from "../install/completion-zsh.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

const SHELLS: Readonly<Record<string, (vocabulary: Vocabulary) => string>> = {
  bash: bashCompletion,
  zsh: zshCompletion,
  fish: fishCompletion,
};

/** `commands` returns the command table; it is a function because the table contains this command. */
export const completion = (commands: () => readonly Command[]): Command => ({
  name: "completion",
  summary: "Print a completion script for bash, zsh or fish",
  usage: Object.keys(SHELLS).join("|"),
  details: [
    "bash: assay completion bash > /etc/bash_completion.d/assay",
    "zsh:  assay completion zsh > /usr/local/share/zsh/site-functions/_assay",
    "fish: assay completion fish > /etc/fish/completions/assay.fish",
  ],
  options: {},
  takesConfig: false,
  positionals: { min: 1, max: 1, names: [Object.keys(SHELLS).join("|")], words: Object.keys(SHELLS) },
  check({ positionals: [shell] }) {
    if (shell === undefined || Object.hasOwn(SHELLS, shell)) return [];
    const known = joinAlternatives(Object.keys(SHELLS));
    return [`there is no completion for ${JSON.stringify(truncate(shell, 100))}: give ${known}`];
  },
  async run(args, io) {
    const [shell = ""] = args.positionals;
    const script = SHELLS[shell];
    if (!script) throw new Error(`the shell ${shell} passed the check of the command line but is unknown`);
    io.stdout(script(createVocabulary(commands())));
    return EXIT.done;
  },
});
