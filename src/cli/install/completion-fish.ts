/** Completion in fish 3 and newer. */
import { firstWords } from "./completion-words.ts";
import type { OptionWord, Value, Vocabulary } from "./completion-words.ts";

export function fishCompletion(vocabulary: Vocabulary): string {
  const { commands, config } = vocabulary;
  const lines = firstWords(vocabulary).map(
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

# The words that are complete already, without the options among them.
function __assay_done
	set -l words (commandline -opc)
	string match -v -- '-*' $words[2..]
end

# Whether so many words are complete, and which ones.
function __assay_words
	set -l words (__assay_done)
	test (count $words) -eq $argv[1]; and test "$words" = "$argv[2..]"
end

# Whether the line is one of that command.
function __assay_in
	set -l words (__assay_done)
	test (count $words) -ge (count $argv); and test "$words[1..$(count $argv)]" = "$argv"
end

# The options of the configuration.
function __assay_config
${config.map((option) => `\tcomplete -c assay -n "$argv[1]" ${optionText(option)}\n`).join("")}end

complete -c assay -f
${lines.join("\n")}
`;
}

function optionText({ flag, description, value }: OptionWord): string {
  return `-l ${flag} ${value === null ? "" : `-r ${valueText(value)} `}-d ${quoted(description)}`;
}

function valueText(value: Value): string {
  if (value === "file") return "-F";
  if (value === "directory") return "-f -a '(__fish_complete_directories)'";
  return value === "text" ? "-f" : `-f -a ${quoted(value.join(" "))}`;
}

const quoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
