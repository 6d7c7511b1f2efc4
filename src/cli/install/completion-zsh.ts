/** Completion for zsh, for a file named _assay in a directory of $fpath. */
import { listFirstWords, groupCommands } from "./completion-words.ts";
import type { CommandWords, OptionWord, ValueKind, Vocabulary } from "./completion-words.ts";

export function zshCompletion(vocabulary: Vocabulary): string {
  const { commands, config } = vocabulary;
  const described = (rows: readonly { word: string; description: string }[]): string =>
    rows.map(({ word, description }) => `\t\t\t${quoted(`${word}:${description.replaceAll(":", "\\:")}`)}\n`).join("");
  const cases = [...groupCommands(vocabulary)].map(
    ([first, members]) => `\
		${first})
			local -a members=(
${described(members).replaceAll("\t\t\t", "\t\t\t\t")}\
			)
			_describe -t commands 'command of ${first}' members
			return
			;;
`,
  );
  return `#compdef assay
# Completion of assay for zsh; made by: assay completion zsh

_assay() {
	local -a config=(
${config.map((option) => `\t\t${argument(option)}\n`).join("")}	)
	if ((CURRENT == 2)); then
		local -a commands=(
${described(listFirstWords(vocabulary))}		)
		_describe -t commands command commands
		return
	fi
	if ((CURRENT == 3)); then
		case $words[2] in
${cases.join("")}		esac
	fi
	local -i taken=1
	local -a options=()
	case "$words[2] $words[3]" in
${commands.map((command) => `\t${commandCase(command)}`).join("")}	*) return 1 ;;
	esac
	# Leave only the words after the command to _arguments.
	shift $taken words
	((CURRENT -= taken))
	_arguments -s -S $options
}

_assay "$@"
`;
}

function commandCase({ name, options, takesConfig, positional }: CommandWords): string {
  const twoWords = name.includes(" ");
  const list = [
    ...options.map(argument),
    ...(takesConfig ? ["$config"] : []),
    ...(positional === null ? [] : [quoted(`*:argument:${action(positional)}`)]),
  ];
  const head = twoWords ? `'${name}')` : `'${name} '*)`;
  return `${head}
${twoWords ? "\t\ttaken=2\n" : ""}\
		options=(
${list.map((item) => `\t\t\t${item}\n`).join("")}\
		)
		;;
`;
}

/** Renders an option for _arguments: '--flag=[description]:placeholder:action'. */
function argument({ flag, description, placeholder, value }: OptionWord): string {
  const text = description.replace(/[[\]\\:]/g, (character) => `\\${character}`);
  return quoted(
    value === null
      ? `--${flag}[${text}]`
      : `*--${flag}=[${text}]:${placeholder.replaceAll(":", "\\:")}:${action(value)}`,
  );
}

function action(value: ValueKind): string {
  if (value === "file") return "_files";
  if (value === "directory") return "_files -/";
  return value === "text" ? " " : `(${value.join(" ")})`;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
