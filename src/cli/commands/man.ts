/** `assay man`: the manual page in roff (man(7)), made of the tables of commands, options, exit codes and topics. */
import { readBuildInfo } from "../../assets.ts";
import { ROWS } from "../../config/options.ts";
import type { CommandOption } from "../args.ts";
import { EXIT, EXIT_MEANINGS, topicNames, topicTitle } from "../framework.ts";
import type { Command } from "../framework.ts";

/** `commands` gives the table of commands, which this command is part of itself. */
export const man = (commands: () => readonly Command[]): Command => ({
  name: "man",
  summary: "Print the manual page",
  usage: "",
  details: ["assay man > /usr/local/share/man/man1/assay.1, or to read it once: assay man | man -l -"],
  options: {},
  takesConfig: false,
  async run(_, io) {
    io.stdout(manualPage(commands(), readBuildInfo().version));
    return EXIT.done;
  },
});

/** What the data directory holds, and where the unit of `assay systemd` puts it. */
const FILES: readonly (readonly [string, string])[] = [
  ["/var/lib/assay", "The data directory of the service that assay systemd describes."],
  ["DATA/assay.db", "The database, with -wal and -shm beside it while it is open."],
  ["DATA/evidence", "Evidence, in files named by their SHA-256."],
  ["DATA/staging", "Uploads under way."],
  ["DATA/backups", "A complete copy of the database before every upgrade of it, and scheduled backups."],
  ["DATA/assay.lock", "Held by the process that serves the directory."],
];

/** The page. It has no date: the same version gives the same bytes. */
export function manualPage(commands: readonly Command[], version: string): string {
  const lines = [
    `.TH ASSAY 1 "" ${quoted(`Assay ${version}`)} "User Commands"`,
    ".SH NAME",
    "assay \\- evidence and compliance server",
    ".SH SYNOPSIS",
    ".B assay",
    "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]",
    ".br",
    ".B assay help",
    "[\\fICOMMAND\\fR|\\fITOPIC\\fR|\\fIWORD\\fR]",
    ".SH DESCRIPTION",
    ...prose(
      "Pipelines report flows, trails, artifacts and attestations with evidence; environments report what runs; policies decide whether it may; anybody may ask for the verdict and gets the reasons with it. Assay keeps all of it in one data directory and serves the HTTP API v2.",
    ),
    ".SH COMMANDS",
    ...prose("Every command takes --help, and --json, which makes results and errors readable for scripts."),
    ...commands.flatMap(commandLines),
    ".SH CONFIGURATION",
    ...prose(
      "Where a command takes [OPTIONS], these are among them. Each can be given as a flag, as a variable, or as a key of the YAML file that --config names; a flag beats a variable, which beats the file.",
    ),
    ...ROWS.flatMap(({ flag, placeholder, description, variable, key, default: preset, accepts }) => [
      ...tagged(`--${flag}`, placeholder),
      ...prose(`${description}.`),
      ".br",
      ...prose(
        `Variable ${variable}${key === null ? "" : `, key ${key}`}${preset === null ? "" : `, default ${preset}`}. Takes ${accepts}.`,
      ),
    ]),
    ".SH EXIT STATUS",
    ...Object.entries(EXIT).flatMap(([name, code]) => [
      ".TP",
      `.B ${code}`,
      ...prose(EXIT_MEANINGS[name as keyof typeof EXIT]),
    ]),
    ".SH ENVIRONMENT",
    ...prose("Every option of the section CONFIGURATION has a variable; an empty one counts as not set. Beside them:"),
    ".TP",
    ".B ASSAY_NATIVE_DIR",
    ...prose(
      "A writable directory on a file system that allows execution, for machines where no temporary directory does.",
    ),
    ".SH FILES",
    ...FILES.flatMap(([path, text]) => [".TP", `.I ${escaped(path)}`, ...prose(text)]),
    ".SH TOPICS",
    ...prose("The operator's guide is inside the program; assay help TOPIC prints a page of it."),
    ...topicNames().flatMap((name) => [".TP", `.B ${escaped(name)}`, ...prose(topicTitle(name))]),
    ".SH SEE ALSO",
    "systemctl(1), systemd.service(5), curl(1)",
  ];
  return `${lines.join("\n")}\n`;
}

function commandLines(command: Command): string[] {
  const own = Object.entries(command.options);
  return [
    `.SS ${quoted(`assay ${command.name} ${command.usage}`.trimEnd())}`,
    ...prose(`${command.summary}.`),
    ...(command.details ? [".PP", ...prose(command.details.join(" "))] : []),
    ...own.flatMap(([name, option]) => [
      ...tagged(`--${name}`, placeholderOf(option)),
      ...prose(`${option.description}.`),
    ]),
  ];
}

const placeholderOf = (option: CommandOption): string => (option.kind === "text" ? option.placeholder : "");

const tagged = (flag: string, placeholder: string): string[] => [
  ".TP",
  `\\fB${escaped(flag)}\\fR${placeholder === "" ? "" : ` \\fI${escaped(placeholder)}\\fR`}`,
];

/** Lines of running text, one for each sentence as roff likes it; none of them is taken for a request. */
function prose(text: string): string[] {
  return text.split(/(?<=[.;:]) (?=[A-Z])/).map((line) => escaped(line).replace(/^(?=[.'])/, "\\&"));
}

const escaped = (text: string): string =>
  text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll("'", "\\(aq")
    .replaceAll("`", "\\(ga")
    .replaceAll("^", "\\(ha")
    .replaceAll("~", "\\(ti");

/** An argument of a request. */
const quoted = (text: string): string => `"${escaped(text).replaceAll('"', "\\(dq")}"`;
