/** Completion in bash 4 and newer, without the package bash-completion. */
import { firstWords, commandGroups } from "./completion-words.ts";
import type { CommandWords, OptionWord, Value, Vocabulary } from "./completion-words.ts";

export function bashCompletion(vocabulary: Vocabulary): string {
  const { commands, config } = vocabulary;
  const indent = (lines: readonly string[]): string => lines.map((line) => `\t${line}\n`).join("");
  return `# Completion of assay for bash; made by: assay completion bash

# Sets "kind" to what follows an option of the command: file, directory, text, or a list of words; empty for a switch.
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

_assay() {
	local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} command= options= positional= kind=
	local configured='${commands
    .filter(({ takesConfig }) => takesConfig)
    .map(({ name }) => name.replaceAll(" ", "_"))
    .join(" ")}'
	# bash splits --option=value in three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=\${COMP_WORDS[COMP_CWORD-2]}
	fi
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W '${firstWords(vocabulary)
      .map(({ word }) => word)
      .join(" ")} --help --version' -- "$cur"))
		return
	fi
	if ((COMP_CWORD == 2)); then
		case \${COMP_WORDS[1]} in
${indent([...commandGroups(vocabulary)].map(([first, members]) => `\t${first}) COMPREPLY=($(compgen -W '${members.map(({ word }) => word).join(" ")}' -- "$cur")); return ;;`))}		esac
	fi
	case "\${COMP_WORDS[1]} \${COMP_WORDS[2]-}" in
${indent(commands.map((command) => `${pattern(command)} command='${command.name}' options='${flags(command.options)}' positional='${kindText(command.positional)}' ;;`))}	*) return ;;
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
}

complete -F _assay assay
`;
}

const flags = (options: readonly OptionWord[]): string => options.map(({ flag }) => `--${flag}`).join(" ");

const kindText = (value: Value | null): string =>
  value === null ? "" : typeof value === "string" ? value : value.join(" ");

const kinds = (options: readonly OptionWord[]): string[] =>
  options.flatMap(({ flag, value }) => (value === null ? [] : [`--${flag}) kind='${kindText(value)}' ;;`]));

const ownKinds = ({ name, options }: CommandWords): string[] =>
  options.flatMap(({ flag, value }) => (value === null ? [] : [`'${name} --${flag}') kind='${kindText(value)}' ;;`]));

/** What the first two words must be: a command of one word may be followed by anything. */
const pattern = ({ name }: CommandWords): string => (name.includes(" ") ? `'${name}')` : `'${name} '*)`);
