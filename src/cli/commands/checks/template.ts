/** `assay template check`: the mistakes of a flow template, without a server and without data. */
import { findUnknownTypes } from "../../../domain/flow-template/unknown-types.ts";
import { listTemplateProblems, parseTemplate } from "../../../domain/flow-template/template.ts";
import { readText } from "../../command-config.ts";
import { createReport, printReport } from "./file-report.ts";
import type { Command } from "../../framework.ts";
import { ORGANIZATION_OPTIONS, compareWith, findMissingOrganization, readOrganization } from "./organization.ts";

export const templateCheck: Command = {
  name: "template check",
  summary: "Check a flow template without a server",
  usage: "FILE [--org NAME [--data DIRECTORY]]",
  details: [
    "Prints each mistake as FILE:LINE:COLUMN: MESSAGE, and nothing for a valid file; FILE - is standard input. Exit " +
      "code 1 for a file with mistakes. What a template may say is in assay help templates.",
    "With --org, the file is compared with the data of an organization, which may be served meanwhile: an expected " +
      "attestation of a type that does not exist there is a warning, because no report can meet it. Warnings do not " +
      "change the exit code.",
  ],
  options: ORGANIZATION_OPTIONS,
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["FILE"] },
  check: findMissingOrganization,
  async run(args, io) {
    const [file = ""] = args.positionals;
    const text = await readText(io, file);
    const { problems } = parseTemplate(text);
    if (problems) return printReport(io, args, { file, problems: listTemplateProblems(problems), warnings: [] });
    const warnings = await readOrganization(args, io, (store, organization) =>
      compareWith(store, organization, (known) => findUnknownTypes(text, known)),
    );
    return printReport(io, args, createReport(file, [], warnings ?? []));
  },
};
