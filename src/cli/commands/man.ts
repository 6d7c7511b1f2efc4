/** `assay man`: the manual page in roff (man(7)), generated from the tables of commands, options and exit codes. */
import { readBuildInfo } from "../../assets.ts";
import { OPTION_ROWS, describeDefault } from "../../config/options.ts";
import type { CommandOption } from "../args.ts";
import { EXIT, EXIT_MEANINGS, listTopicNames, topicTitle } from "../framework.ts";
import type { Command } from "../framework.ts";

/** `commands` returns the command table; it is a function because the table contains this command. */
export const man = (commands: () => readonly Command[]): Command => ({
  name: "man",
  summary: "Print the manual page",
  usage: "",
  details: ["To install it: assay man > /usr/local/share/man/man1/assay.1", "To read it once: assay man | man -l -"],
  options: {},
  takesConfig: false,
  async run(_, io) {
    io.stdout(manualPage(commands(), readBuildInfo().version));
    return EXIT.done;
  },
});

/** The FILES section: the data directory of the systemd unit, and the content of every data directory. */
const FILES: readonly (readonly [string, string])[] = [
  ["/var/lib/assay", "The data directory of the service that assay systemd configures."],
  ["DATA/assay.db", "The database, with -wal and -shm files while it is open."],
  ["DATA/evidence", "Evidence, in files named by their SHA-256."],
  ["DATA/staging", "Uploads in progress."],
  ["DATA/backups", "Scheduled backups, and a complete copy of the database before every schema upgrade."],
  ["DATA/assay.lock", "Locked by the process that serves the directory."],
];

const DESCRIPTION =
  "Pipelines report flows, trails, artifacts and attestations with evidence. Environments report what runs in them. " +
  "Policies determine whether it may run, and clients query the verdict together with its reasons. Assay stores all " +
  "of it in one data directory and serves the HTTP API v2.";

const CONFIGURATION =
  "A command with [OPTIONS] in its usage line takes these options. Set each with a flag, with an environment " +
  "variable, or with a key of the YAML file that --config names. A flag overrides a variable, and a variable " +
  "overrides the file.";

/** Renders the page. It has no date, so the same version always yields the same bytes. */
export function manualPage(commands: readonly Command[], version: string): string {
  const lines = [
    `.TH ASSAY 1 "" ${quoteArgument(`Assay ${version}`)} "User Commands"`,
    ".SH NAME",
    "assay \\- evidence and compliance server",
    ".SH SYNOPSIS",
    ".B assay",
    "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]",
    ".br",
    ".B assay help",
    "[\\fICOMMAND\\fR|\\fITOPIC\\fR|\\fIWORD\\fR]",
    ".SH DESCRIPTION",
    ...proseLines(DESCRIPTION),
    ".SH COMMANDS",
    ...proseLines("Every command takes --help, and --json to write results and errors as JSON for scripts."),
    ...commands.flatMap(commandLines),
    ".SH CONFIGURATION",
    ...proseLines(CONFIGURATION),
    ...OPTION_ROWS.flatMap(({ flag, placeholder, description, variable, key, accepts, ...row }) => [
      ...taggedLines(`--${flag}`, placeholder),
      ...proseLines(`${description}.`),
      ".br",
      ...proseLines(
        `Variable ${variable}${key === null ? "" : `, key ${key}`}${defaultPart(row)}. ` + `Accepts ${accepts}.`,
      ),
    ]),
    ".SH EXIT STATUS",
    ...Object.entries(EXIT).flatMap(([name, code]) => [
      ".TP",
      `.B ${code}`,
      ...proseLines(EXIT_MEANINGS[name as keyof typeof EXIT]),
    ]),
    ".SH ENVIRONMENT",
    ...proseLines(
      "Every option in the section CONFIGURATION has a variable; an empty variable counts as not set. Also:",
    ),
    ".TP",
    ".B ASSAY_NATIVE_DIR",
    ...proseLines(
      "A writable directory on a file system that allows execution, for machines whose temporary directories do not.",
    ),
    ".SH FILES",
    ...FILES.flatMap(([path, text]) => [".TP", `.I ${escapeRoff(path)}`, ...proseLines(text)]),
    ".SH TOPICS",
    ...proseLines("The program contains the operator's guide; assay help TOPIC prints one of its pages."),
    ...listTopicNames().flatMap((name) => [".TP", `.B ${escapeRoff(name)}`, ...proseLines(topicTitle(name))]),
    ".SH SEE ALSO",
    "systemctl(1), systemd.service(5), curl(1)",
  ];
  return `${lines.join("\n")}\n`;
}

function commandLines(command: Command): string[] {
  const ownOptions = Object.entries(command.options);
  return [
    `.SS ${quoteArgument(`assay ${command.name} ${command.usage}`.trimEnd())}`,
    ...proseLines(`${command.summary}.`),
    ...(command.details ? [".PP", ...proseLines(command.details.join(" "))] : []),
    ...ownOptions.flatMap(([name, option]) => [
      ...taggedLines(`--${name}`, placeholderOf(option)),
      ...proseLines(`${option.description}.`),
    ]),
  ];
}

const placeholderOf = (option: CommandOption): string => (option.kind === "text" ? option.placeholder : "");

const taggedLines = (flag: string, placeholder: string): string[] => [
  ".TP",
  `\\fB${escapeRoff(flag)}\\fR${placeholder === "" ? "" : ` \\fI${escapeRoff(placeholder)}\\fR`}`,
];

/** Splits prose into one line per sentence, as roff recommends, and escapes lines that would be requests. */
function proseLines(text: string): string[] {
  return text.split(/(?<=[.;:]) (?=[A-Z])/).map((line) => escapeRoff(line).replace(/^(?=[.'])/, "\\&"));
}

const escapeRoff = (text: string): string =>
  text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll("'", "\\(aq")
    .replaceAll("`", "\\(ga")
    .replaceAll("^", "\\(ha")
    .replaceAll("~", "\\(ti");

/** Quotes an argument of a roff request. */
const quoteArgument = (text: string): string => `"${escapeRoff(text).replaceAll('"', "\\(dq")}"`;

function defaultPart(row: Parameters<typeof describeDefault>[0]): string {
  const value = describeDefault(row);
  return value === null ? "" : `, default ${value}`;
}
