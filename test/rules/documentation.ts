/** What documents take from the tables in the code: options, commands, topics. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { COMMANDS } from "../../src/cli/commands.ts";
import { OPTION_ROWS, describeDefault } from "../../src/config/options.ts";
import { operations } from "../../src/api/index.ts";
import { ROLES, allows, isOrgPermission } from "../../src/domain/access.ts";
import type { OrgPermission, Role } from "../../src/domain/access.ts";
import { ROOT, sourceFiles } from "./source.ts";

/** The options that nearly every installation sets. */
const USUAL = [
  "data",
  "config",
  "listen",
  "base-url",
  "tls-cert",
  "tls-key",
  "bootstrap",
  "evidence-limit",
  "backup-every",
  "webhook-allow",
  "smtp-url",
];

const code = (text: string): string => `\`${text}\``;
const cell = (text: string): string => text.replaceAll("|", "\\|");

/** src/guide/options.md. */
export function optionsPage(): string {
  const rows = OPTION_ROWS.map(({ flag, placeholder, variable, key, description, accepts, secret, ...row }) => {
    const preset = describeDefault(row);
    const names = [code(`--${flag} ${placeholder}`), code(variable), ...(key === null ? [] : [code(key)])].join(" ");
    return (
      `| ${names} | ${preset === null ? "" : code(preset)} ` +
      `| ${cell(`${description}${secret ? " (secret)" : ""}; takes ${accepts}`)} |`
    );
  });
  return `# Options: everything that can be set

Each is a flag, a variable or a key of the YAML file: \`assay help configuration\`.
\`assay config explain OPTION\` describes one.

| flag, variable, key | default | meaning |
|---|---|---|
${rows.join("\n")}
`;
}

/** The usual options, in src/guide/configuration.md. */
export function usualOptions(): string {
  const rows = USUAL.map((name) => {
    const row = OPTION_ROWS.find(({ flag }) => flag === name);
    if (!row) throw new Error(`there is no option ${name}`);
    return (
      `| ${code(`--${row.flag} ${row.placeholder}`)} | ${code(row.variable)} ` +
      `| ${cell(row.description)}${describeDefault(row) === null ? "" : ` (${describeDefault(row)})`} |`
    );
  });
  return ["| flag | variable | meaning |", "|---|---|---|", ...rows].join("\n");
}

/** src/guide/commands.md. */
export function commandsPage(): string {
  const rows = COMMANDS.map(
    ({ name, usage, summary }) => `| ${code(cell(`assay ${name} ${usage}`.trimEnd()))} | ${cell(summary)} |`,
  );
  return `# Commands: everything the program can do

\`assay help COMMAND\` describes one command. Every command takes \`--help\`, and \`--json\` for scripts.
Commands that need a data directory take \`--data DIRECTORY\` or \`ASSAY_DATA\`, and most have a default
(\`assay help configuration\`).
All but \`assay serve\`, \`assay dev\` and \`assay init\` work while the server runs, unless their help says otherwise.

| command | purpose |
|---|---|
${rows.join("\n")}
`;
}

/** src/guide/roles.md: the permissions of the operations in words, each where the weakest role that has it is. */
export function rolesPage(): string {
  const orgOperations = operations.filter(({ permission }) => isOrgPermission(permission));
  const weakestOf = (permission: OrgPermission): Role =>
    [...ROLES].reverse().find((role) => allows(permission, { role, isPublic: false })) as Role;
  const isOpen = (permission: OrgPermission): boolean => allows(permission, { role: null, isPublic: true });
  const sections = [...ROLES].reverse().map((role, index) => {
    const added = orgOperations.filter(({ permission }) => weakestOf(permission as OrgPermission) === role);
    const tags = [...new Set(added.map(({ tag }) => tag))].sort();
    const lines = tags.map((tag) => {
      const summaries = added
        .filter((one) => one.tag === tag)
        .map(({ summary, permission }) => {
          const text = summary.charAt(0).toLowerCase() + summary.slice(1);
          return index === 0 && !isOpen(permission as OrgPermission) ? `${text} (only with a role)` : text;
        });
      return `- **${tag}**: ${[...new Set(summaries)].join("; ")}`;
    });
    return `## ${role}${index === 0 ? "" : ", beside what the roles above may"}\n\n${lines.join("\n")}\n`;
  });
  return `${ROLES_HEAD}\n${sections.join("\n")}`;
}

const ROLES_HEAD = `# Roles: who may do what in an organization

People and service accounts have one role in an organization: reader, snapshotter, member or admin, each with what
the ones before it may. Reports need a member; what runs in environments may be reported by a snapshotter, which is
the role for cluster reporters.

- People without a role in a **public** organization may do what a reader may, unless a line says otherwise.
- Everyone manages their own keys (\`/user/api-keys\`). A key creates no key that expires later than itself.
- **Service accounts**: members and snapshotters create them too, at most with their own role, and see and change
  only those that they created. Admins see and change all.
- An organization keeps an admin: the last one cannot be removed or get another role.
- What only the **operator** of the server may do has no role: organizations, passwords of others, apply files,
  backups. These are commands on its machine (\`assay help commands\`).
- Inbound webhooks have no key: their body is signed, and they act as a service account.
`;

/** The page that lists the others. */
const TOPICS = "topics";

/** The topics of the guide by name: what is in the folder, and the pages made here. */
export const topicsOfGuide = (): string[] =>
  [
    ...new Set([
      ...readdirSync(join(ROOT, "src/guide")).map((name) => name.replace(/\.md$/, "")),
      "options",
      "commands",
      "roles",
      TOPICS,
    ]),
  ].sort();

/** src/guide/topics.md: what each page of the guide is about, in the words of its first line. */
export function topicsPage(): string {
  const rows = topicsOfGuide()
    .filter((name) => name !== TOPICS)
    .map((name) => `- [${name}](${name}.md): ${subjectOf(name)}`);
  return `# Topics: all pages of this guide\n\n\`assay help TOPIC\` prints one.\n\n${rows.join("\n")}\n`;
}

const subjectOf = (name: string): string =>
  (readDocument(`src/guide/${name}.md`).split("\n")[0] as string).replace(/^# [^:]+: /, "");

/** The fenced block of the README with this info string. */
export function readmeBlock(info: string): string {
  const text = new RegExp(`^\`\`\`${info}\\n([^]*?)^\`\`\`$`, "m").exec(readDocument("README.md"))?.[1];
  if (text === undefined) throw new Error(`README.md has no block \`\`\`${info}`);
  return text;
}

/** `text` with `inner` between the comments that name `part`. */
export function withPart(text: string, part: string, inner: string): string {
  const pattern = new RegExp(`(<!-- ${part} -->\n)[^]*?(<!-- /${part} -->)`);
  if (!pattern.test(text)) throw new Error(`<!-- ${part} --> is missing`);
  return text.replace(pattern, (_, begin: string, end: string) => `${begin}${inner}\n${end}`);
}

/** The links of a Markdown text to files beside it, without what follows a #. */
export const linksOf = (text: string): string[] =>
  [...text.matchAll(/\]\((?!\w+:)([^)#\s]+)[^)]*\)/g)].map((match) => match[1] as string);

/** The command lines of a text: `assay ...` between backticks, and lines of blocks that begin with it. */
export function commandLinesOf(text: string): string[] {
  const prose = text.replace(/```[^]*?```/g, "");
  const quoted = [...prose.matchAll(/`(assay [^`]+)`/g)].map((match) => (match[1] as string).replace(/\s+/g, " "));
  const printed = text
    .replace(/\\\n\s*/g, "")
    .split("\n")
    .flatMap((line) => /^ *(?:\$ )?(assay [a-z].+)$/.exec(line)?.[1] ?? []);
  return [...quoted, ...printed];
}

/** The code of folders as one text, in which a text that is written in parts (`"a " + "b"`) stands in one piece. */
export const codeOf = (...folders: string[]): string =>
  folders
    .flatMap(sourceFiles)
    .map(({ text }) => text)
    .join("\n")
    .replace(/(["'`])\s*\+\s*["'`]/g, "")
    .replace(/\s+/g, " ");

/** Programs of others whose command lines the guide quotes without an option. */
const PROGRAMS = /^(assay|chown|cp|mv|rm|systemd-analyze|systemctl)\b/;

/** The messages that a page quotes: three and more words between backticks that are not a command line or code. */
export const quotedMessages = (text: string): string[] =>
  [...text.replace(/```[^]*?```/g, "").matchAll(/`([^`]+)`/g)]
    .map((match) => (match[1] as string).replace(/\s+/g, " "))
    .filter((span) => span.split(" ").length >= 3 && /^[\w ,.:;'…()-]+$/.test(span))
    .filter((span) => !/(^| )-/.test(span) && !PROGRAMS.test(span));

/**
 * The parts of a quoted message that the code must hold in one piece: two and more words between placeholders, which
 * are dots, words in capitals, numbers, and the subject of a sentence that the code completes ("X exceeds").
 */
export const fixedParts = (message: string): string[] =>
  message
    .split(/…|\.\.\.|^.*(?= exceeds)|\b[A-Z]+\b|\b\d[\d.]*\w*\b/)
    .map((part) => part.trim())
    .filter((part) => part.includes(" "));

export const readDocument = (path: string): string => readFileSync(join(ROOT, path), "utf8");
