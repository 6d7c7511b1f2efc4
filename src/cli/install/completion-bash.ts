/** Completion for bash 4 and newer, without the package bash-completion. */
import { listFirstWords, groupCommands } from "./completion-words.ts";
import type { CommandWords, OptionWord, ValueKind, Vocabulary } from "./completion-words.ts";

export function bashCompletion(vocabulary: Vocabulary): string {
  return `# Completion of assay for bash; made by: assay completion bash

${kindFunction(vocabulary)}
${completionFunction(vocabulary)}

complete -F _assay assay
`;
}

const kindFunction = ({ commands, config }: Vocabulary): string => `\
# Sets "kind" to the kind of an option's value: file, directory, text, or a list of words; empty for a switch.
_assay_kind() {
	case "$1 $2" in
${indent(commands.flatMap(ownKinds))}	*)
		if [[ " $configured " == *" \${1// /_} "* ]]; then
			case $2 in
${indent(kinds(config).map((line) => `\t\t${line}`))}			esac
		fi
		;;
	esac
}
`;

function completionFunction(vocabulary: Vocabulary): string {
  const { commands, config } = vocabulary;
  return `_assay() {
	local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} command= options= positional= kind=
	local configured='${commands
    .filter(({ takesConfig }) => takesConfig)
    .map(({ name }) => name.replaceAll(" ", "_"))
    .join(" ")}'
	# bash splits --option=value into three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=\${COMP_WORDS[COMP_CWORD-2]}
	fi
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W '${listFirstWords(vocabulary)
      .map(({ word }) => word)
      .join(" ")} --help --version' -- "$cur"))
		return
	fi
	if ((COMP_CWORD == 2)); then
		case \${COMP_WORDS[1]} in
${indent([...groupCommands(vocabulary)].map(groupCase))}		esac
	fi
	case "\${COMP_WORDS[1]} \${COMP_WORDS[2]-}" in
${indent(commands.map(commandCase))}	*) return ;;
	esac
	if [[ " $configured " == *" \${command// /_} "* ]]; then
		options+=' ${flags(config)}'
	fi
	if [[ $prev == --* ]]; then
		_assay_kind "$command" "$prev"
	fi
	if [[ -z $kind && $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
		return
	fi
	case \${kind:-$positional} in
	file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	directory)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		;;
	text) ;;
	'') COMPREPLY=($(compgen -W "$options" -- "$cur")) ;;
	*) COMPREPLY=($(compgen -W "\${kind:-$positional}" -- "$cur")) ;;
	esac
}`;
}

const indent = (lines: readonly string[]): string => lines.map((line) => `\t${line}\n`).join("");

const groupCase = ([first, members]: [string, readonly { word: string }[]]): string =>
  `\t${first}) COMPREPLY=($(compgen -W '${members.map(({ word }) => word).join(" ")}' -- "$cur")); return ;;`;

const commandCase = (command: CommandWords): string =>
  `${pattern(command)} command='${command.name}' options='${flags(command.options)}' ` +
  `positional='${kindText(command.positional)}' ;;`;

const flags = (options: readonly OptionWord[]): string => options.map(({ flag }) => `--${flag}`).join(" ");

const kindText = (value: ValueKind | null): string =>
  value === null ? "" : typeof value === "string" ? value : value.join(" ");

const kinds = (options: readonly OptionWord[]): string[] =>
  options.flatMap(({ flag, value }) => (value === null ? [] : [`--${flag}) kind='${kindText(value)}' ;;`]));

const ownKinds = ({ name, options }: CommandWords): string[] =>
  options.flatMap(({ flag, value }) => (value === null ? [] : [`'${name} --${flag}') kind='${kindText(value)}' ;;`]));

/** Returns the case pattern for the first two words; anything may follow a command of one word. */
const pattern = ({ name }: CommandWords): string => (name.includes(" ") ? `'${name}')` : `'${name} '*)`);
