/** `assay openapi`: prints the API document for generators and reviews; needs neither data nor a running server. */
import { apiDocument } from "../../server/app.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { OPTIONS } from "../../config/options.ts";
import type { Args } from "../args.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

const { flag, placeholder, parse, accepts } = OPTIONS.baseUrl;

/** The address of an installation with default settings. */
const DEFAULT_BASE_URL = "http://127.0.0.1:8001";

export const openapi: Command = {
  name: "openapi",
  summary: "Print the OpenAPI document of the API",
  usage: "",
  options: {
    [flag]: {
      kind: "text",
      placeholder,
      description: `Public URL of the server, for the document (default ${DEFAULT_BASE_URL})`,
    },
  },
  takesConfig: false,
  check(args) {
    const problem = `--${flag}: ${JSON.stringify(truncate(baseUrlText(args), 100))} is not accepted, give ${accepts}`;
    return parseBaseUrl(args) === null ? [problem] : [];
  },
  async run(args, io) {
    const baseUrl = parseBaseUrl(args) ?? DEFAULT_BASE_URL;
    io.stdout(`${JSON.stringify(apiDocument(baseUrl), null, 2)}\n`);
    return EXIT.done;
  },
};

const baseUrlText = (args: Args): string => args.texts.get(flag)?.[0] ?? DEFAULT_BASE_URL;

const parseBaseUrl = (args: Args): string | null => parse(baseUrlText(args));
