/**
 * `assay openapi`: prints the API document for generators and reviews, or compares it with another one. Needs neither
 * data nor a running server.
 */
import { apiDocument } from "../../server/app.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { OPTIONS } from "../../config/options.ts";
import type { Args } from "../args.ts";
import { readText } from "../command-config.ts";
import { EXIT, escapeLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { compareApiDocuments, lineOfDifference } from "../openapi/compare-documents.ts";
import { parseApiDocument } from "../openapi/document.ts";
import type { JsonObject } from "../openapi/document.ts";
import { applyExceptions, parseApiExceptions } from "../openapi/exceptions.ts";

const { flag, placeholder, parse, accepts } = OPTIONS.baseUrl;

/** The address of an installation with default settings. */
const DEFAULT_BASE_URL = "http://127.0.0.1:8001";

export const openapi: Command = {
  name: "openapi",
  summary: "Print the OpenAPI document of the API, or compare it with another one",
  usage: "[--compare FILE [--except FILE] [--limits]]",
  details: [
    "With --compare, prints what the OpenAPI document in FILE (3.0 to 3.2, JSON or YAML, - for standard input) has " +
      "and the API lacks, closes or requires: operations, parameters, fields, values, statuses, media types, ways " +
      "to authenticate. One line for each difference names the operation, the place and the difference. In a " +
      "request, the API must accept what FILE accepts; in a response, it must promise what FILE promises. With " +
      "differences, the exit code is 1.",
    "--except names a YAML file of differences that are meant: a list `exceptions`, whose entries have a `reason` " +
      "and a list `differences` of lines as printed, in which * is any text. An exception that matches no difference " +
      "is reported, with exit code 1.",
    "Texts, examples, callbacks and webhooks are not compared, and limits on the size of what a request sends only " +
      "where FILE has a larger one: --limits shows all of them.",
  ],
  options: {
    [flag]: {
      kind: "text",
      placeholder,
      description: `Public URL of the server, for the document (default ${DEFAULT_BASE_URL})`,
    },
    compare: { kind: "text", placeholder: "FILE", description: "OpenAPI document to compare the API with" },
    except: { kind: "text", placeholder: "FILE", description: "Differences that are meant, with their reasons" },
    limits: { kind: "switch", description: "Compare limits of size also where FILE has none" },
  },
  takesConfig: false,
  check(args) {
    const problem = `--${flag}: ${JSON.stringify(truncate(baseUrlText(args), 100))} is not accepted, give ${accepts}`;
    const alone = ["except", "limits"].filter((name) => args.texts.has(name) || args.switches.has(name));
    return [
      ...(parseBaseUrl(args) === null ? [problem] : []),
      ...(args.texts.has("compare") ? [] : alone.map((name) => `--${name} needs --compare FILE`)),
    ];
  },
  async run(args, io) {
    const baseUrl = parseBaseUrl(args) ?? DEFAULT_BASE_URL;
    if (args.texts.has("compare")) return compareWith(args, io, baseUrl);
    io.stdout(`${JSON.stringify(apiDocument(baseUrl), null, 2)}\n`);
    return EXIT.done;
  },
};

const baseUrlText = (args: Args): string => args.texts.get(flag)?.[0] ?? DEFAULT_BASE_URL;

const parseBaseUrl = (args: Args): string | null => parse(baseUrlText(args));

/** Compares the API with the document that --compare names. */
async function compareWith({ texts, switches }: Args, io: Io, baseUrl: string): Promise<number> {
  const [file = "", exceptionFile] = ["compare", "except"].map((name) => texts.get(name)?.[0]);
  const theirs = parseApiDocument(await readText(io, file), file === "-" ? "standard input" : file);
  const exceptions =
    exceptionFile === undefined ? [] : parseApiExceptions(await readText(io, exceptionFile), exceptionFile);
  const ours = { name: "the document of this program", root: apiDocument(baseUrl) as JsonObject, is30: false };
  const differences = compareApiDocuments(ours, theirs, { limits: switches.has("limits") });
  const { left, excepted, unused } = applyExceptions(differences, exceptions);
  if (switches.has("json")) {
    const unusedExceptions = unused.map(({ place: { line, column }, pattern, reason }) => {
      return { line, column, difference: pattern, reason };
    });
    io.stdout(`${JSON.stringify({ differences: left, excepted, unused_exceptions: unusedExceptions })}\n`);
  } else {
    const lines = [
      ...left.map(lineOfDifference),
      ...unused.map(({ place: { line, column }, pattern }) => {
        return `${exceptionFile}:${line}:${column}: no difference matches ${JSON.stringify(pattern)}`;
      }),
    ];
    const except = excepted.length > 0 ? ` but ${excepted.length} exceptions` : "";
    io.stdout(lines.length > 0 ? `${lines.map(escapeLine).join("\n")}\n` : `No differences${except}.\n`);
  }
  return left.length > 0 || unused.length > 0 ? EXIT.failed : EXIT.done;
}
