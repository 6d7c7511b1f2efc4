/**
 * `assay call`: calls any operation. Over HTTP with an API key it may what the key may; on a data directory it reads
 * and configures as the operator. Help, options and rules are those of the operation: nothing here knows any of them.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Readable } from "node:stream";
import { operations, operatorOperations } from "../../api/index.ts";
import type { AssayOperation } from "../../api/context.ts";
import { OPTIONS } from "../../config/options.ts";
import { findNearestNames } from "../../domain/text/near-names.ts";
import { causeOf } from "../../domain/text/system-errors.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { stringifyJson } from "../../json/text.ts";
import type { Args, CommandOption } from "../args.ts";
import { BODY_FLAG, callFieldsOf, findFieldProblems, optionsOf, readCallFields, usageOf } from "../call/fields.ts";
import type { FieldInput } from "../call/fields.ts";
import { parseServerUrl, sendCall } from "../call/over-http.ts";
import { readCaBundle, readText, resolveDataDirectory } from "../command-config.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { withOperator } from "../operator.ts";
import { optionOf, printResult } from "../output.ts";
import { renderTable } from "../table.ts";

/** Those that a person or a program may call: signed ones belong to another product. */
const CALLABLE: readonly AssayOperation[] = [...operations, ...operatorOperations]
  .filter(({ status, permission }) => status !== "removed" && permission !== "signed")
  .sort((a, b) => (a.id < b.id ? -1 : 1));
const IDS = CALLABLE.map(({ id }) => id);

const URL_RULE = "http://HOST:PORT or https://HOST/BASE-PATH";
const DEFAULT_URL = `http://${OPTIONS.listen.default}`;

const WHERE_OPTIONS: Readonly<Record<string, CommandOption>> = {
  url: { kind: "text", placeholder: "URL", description: `The server (default KOSLI_HOST, or ${DEFAULT_URL})` },
  "key-file": {
    kind: "text",
    placeholder: "FILE",
    description: "File with the API key in its first line, - for standard input (default KOSLI_API_TOKEN)",
  },
  "ca-file": { kind: "text", placeholder: "FILE", description: "CA bundle to trust besides that of the machine" },
  data: {
    kind: "text",
    placeholder: "DIRECTORY",
    description: "Call as the operator, on this data directory instead of a server",
  },
};

export const call: Command = {
  name: "call",
  summary: "Call an operation of the API, on a server or as the operator on a data directory",
  usage: "[OPERATION] [--FIELD VALUE...] [--data DIRECTORY] [OPTIONS]",
  details: [
    "Without OPERATION, lists all of them; assay call OPERATION --help describes one and its fields. Prints the " +
      "answer as the API gives it: JSON, or the bytes of a file.",
    "With an API key, which is only read from a file, the environment or standard input, it may what the key may. " +
      "With --data it reads and configures every organization as the operator, beside a running server or without " +
      "one, but reports no evidence and makes no decisions: those take a key. KOSLI_ORG names the organization where " +
      "--org does not.",
  ],
  options: WHERE_OPTIONS,
  takesConfig: false,
  positionals: { min: 0, max: 1, names: ["OPERATION"], words: IDS },
  specialize: (words) => {
    const [word] = words;
    const operation = word === undefined || word.startsWith("-") ? undefined : CALLABLE.find(({ id }) => id === word);
    if (operation) return callOf(operation);
    return word === undefined || word.startsWith("-") ? call : unknownCall(word, words);
  },
  async run(args, io) {
    const rows = CALLABLE.map(({ id, permission, summary }) => [id, permission, summary]);
    return printResult(io, args, {
      json: { operations: CALLABLE.map(({ id, permission, summary }) => ({ id, permission, summary })) },
      text: renderTable(["OPERATION", "PERMISSION", "SUMMARY"], rows, "no operations"),
    });
  },
};

/** The command for a word that names none: its fields are unknown, so only the word is a mistake. */
function unknownCall(word: string, words: readonly string[]): Command {
  const flags = words.flatMap((one) => /^--([\w-]+)/.exec(one)?.[1] ?? []);
  const any: CommandOption = { kind: "text", placeholder: "VALUE", repeatable: true, description: "" };
  const near = findNearestNames(word, IDS);
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "assay call lists all";
  return {
    ...call,
    options: { ...Object.fromEntries(flags.map((flag) => [flag, any])), ...WHERE_OPTIONS },
    positionals: { min: 1, max: words.length, names: ["OPERATION"] },
    check: () => [`there is no operation ${JSON.stringify(truncate(word, 100))}; ${hint}`],
  };
}

/** The command for one operation. */
function callOf(operation: AssayOperation): Command {
  const { id, summary, description, body, permission } = operation;
  const fields = callFieldsOf(operation);
  const hasBody = body.kind !== "none";
  const isOperators = permission === "operator";
  const { data, ...overHttp } = WHERE_OPTIONS as typeof WHERE_OPTIONS & { data: CommandOption };
  return {
    name: `call ${id}`,
    summary,
    usage: usageOf(fields),
    details: [
      ...(description === undefined ? [] : [description.replaceAll("`", "")]),
      isOperators
        ? "Only the operator may call it: with --data DIRECTORY."
        : `${operation.method} ${operation.path}, permission ${permission}.`,
    ],
    options: {
      ...optionsOf(fields),
      ...(hasBody && {
        [BODY_FLAG]: {
          kind: "text" as const,
          placeholder: "FILE",
          description: "File with the whole body as JSON, - for standard input",
        },
      }),
      ...(isOperators ? {} : overHttp),
      data,
    },
    takesConfig: false,
    namesData: true,
    check: (args, io) => [...findFieldProblems(fields, args, io), ...findWhereProblems(args, io, { isOperators })],
    async run(args, io) {
      const input = await readCallFields(operation, { fields, args, io });
      return args.texts.has("data")
        ? callAsOperator(operation, { args, io, input })
        : callOverHttp(operation, { args, io, input });
    },
  };
}

function findWhereProblems(args: Args, io: Pick<Io, "env">, { isOperators }: { isOperators: boolean }): string[] {
  const url = urlOf(args, io);
  const given = ["url", "key-file", "ca-file"].filter((name) => args.texts.has(name));
  if (args.texts.has("data")) return given.map((name) => `--${name}: give it or --data, not both`);
  if (isOperators) return ["--data is missing: only the operator may call this, on a data directory"];
  return parseServerUrl(url) === null
    ? [`--url: ${JSON.stringify(truncate(url, 100))} is not accepted, give ${URL_RULE}`]
    : [];
}

const urlOf = (args: Args, { env }: Pick<Io, "env">): string =>
  optionOf(args, "url") ?? (env["KOSLI_HOST"] || DEFAULT_URL);

type Called = { args: Args; io: Io; input: FieldInput };

async function callAsOperator(operation: AssayOperation, { args, io, input }: Called): Promise<number> {
  const directory = await resolveDataDirectory(args, io, { namesData: true });
  const file = input.file === null ? null : { filename: input.file, text: await readText(io, input.file) };
  const { params, query, body } = input;
  const sent = { params, query, ...(body === undefined ? {} : { body }), ...(file === null ? {} : { file }) } as never;
  const isFile = Object.values(operation.responses).some(({ isDownload, isStream }) => isDownload ?? isStream);
  await withOperator(directory, { command: operation.id }, async ({ call: callOperation, open }) => {
    if (!isFile) return io.stdout(`${stringifyJson(await callOperation(operation, sent))}\n`);
    const reply = await open(operation, sent);
    const aborted = new AbortController().signal;
    return writeAll(io, "stream" in reply ? await reply.stream.open(aborted) : await reply.download.open(null));
  });
  return EXIT.done;
}

async function callOverHttp(operation: AssayOperation, { args, io, input }: Called): Promise<number> {
  const caFile = optionOf(args, "ca-file");
  const server = {
    url: parseServerUrl(urlOf(args, io)) as URL,
    key: await readKey(args, io),
    authorities: (await readCaBundle({ caFile }, io)) ?? [],
  };
  if (server.key === null && operation.permission !== "public")
    throw new CommandError(
      `${operation.id} needs an API key: give --key-file FILE, or set KOSLI_API_TOKEN; or --data DIRECTORY as operator`,
      EXIT.usage,
    );
  const file = input.file === null ? null : { name: input.file, bytes: readBytes(input.file, io) };
  const response = await sendCall(operation, { server, input, file });
  const type = response.headers["content-type"] ?? "";
  if (!type.startsWith("application/json")) {
    await writeAll(io, response);
    return EXIT.done;
  }
  for await (const text of response.setEncoding("utf8")) io.stdout(String(text));
  io.stdout("\n");
  return EXIT.done;
}

/** The API key; null without one. A blank file would be sent as an empty key, and refused without a reason. */
async function readKey(args: Args, io: Io): Promise<string | null> {
  const name = optionOf(args, "key-file");
  if (name === null) return io.env["KOSLI_API_TOKEN"] || null;
  const key = ((await readText(io, name)).split(/\r?\n/, 1)[0] ?? "").trim();
  if (!/^[!-~]+$/.test(key)) throw new CommandError(`--key-file: the first line of ${name} is not an API key`);
  return key;
}

function readBytes(name: string, io: Io): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(readFileSync(resolve(io.cwd, name)));
  } catch (error) {
    throw new CommandError(`cannot read ${name}: ${causeOf(error)}`);
  }
}

async function writeAll(io: Io, bytes: Readable): Promise<void> {
  for await (const chunk of bytes) await io.writeBytes(chunk as Uint8Array);
}
