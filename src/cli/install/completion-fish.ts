/** Completion for fish 3 and newer. */
import { listFirstWords } from "./completion-words.ts";
import type { OptionWord, ValueKind, Vocabulary } from "./completion-words.ts";

export function fishCompletion(vocabulary: Vocabulary): string {
  const { commands, config } = vocabulary;
  const lines = listFirstWords(vocabulary).map(
    ({ word, description }) => `complete -c assay -n '__assay_words 0' -a ${word} -d ${quoted(description)}`,
  );
  for (const { name, summary, options, takesConfig, positional } of commands) {
    const [first, second] = name.split(" ");
    if (second !== undefined)
      lines.push(`complete -c assay -n '__assay_words 1 ${first}' -a ${second} -d ${quoted(summary)}`);
    const condition = `-n '__assay_in ${name}'`;
    for (const option of options) lines.push(`complete -c assay ${condition} ${optionText(option)}`);
    if (takesConfig) lines.push(`__assay_config ${quoted(`__assay_in ${name}`)}`);
    if (positional !== null && positional !== "text")
      lines.push(`complete -c assay ${condition} ${valueText(positional)}`);
  }
  return `# Completion of assay for fish; made by: assay completion fish

# The complete words before the cursor, without options.
function __assay_done
	set -l words (commandline -opc)
	string match -v -- '-*' $words[2..]
end

# Whether exactly this number of words is complete, and these are the words.
function __assay_words
	set -l words (__assay_done)
	test (count $words) -eq $argv[1]; and test "$words" = "$argv[2..]"
end

# Whether the line begins with this command.
function __assay_in
	set -l words (__assay_done)
	test (count $words) -ge (count $argv); and test "$words[1..$(count $argv)]" = "$argv"
end

# The configuration options.
function __assay_config
${config.map((option) => `\tcomplete -c assay -n "$argv[1]" ${optionText(option)}\n`).join("")}end

complete -c assay -f
${lines.join("\n")}
`;
}

function optionText({ flag, description, value }: OptionWord): string {
  return `-l ${flag} ${value === null ? "" : `-r ${valueText(value)} `}-d ${quoted(description)}`;
}

function valueText(value: ValueKind): string {
  if (value === "file") return "-F";
  if (value === "directory") return "-f -a '(__fish_complete_directories)'";
  return value === "text" ? "-f" : `-f -a ${quoted(value.join(" "))}`;
}

const quoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
