/** `assay apply`: creates organizations, users, members, service accounts and keys as a file declares them. */
import { describeChanges } from "../apply/apply-plan.ts";
import { DATA_OPTIONS, NAMED_DATA_OPTION, resolveDataDirectory } from "../command-config.ts";
import { NEW_DATABASE, NEW_DATABASE_OPTION } from "../data-directory.ts";
import type { Command } from "../framework.ts";
import { withOperator } from "../operator.ts";
import { printResult } from "../output.ts";
import { applyPlanFile, readApplyFile } from "./serve.ts";

export const apply: Command = {
  name: "apply",
  summary: "Create and update organizations, users and keys from a YAML file",
  usage: "FILE --data DIRECTORY",
  details: [
    "FILE may be - for standard input. Creates or updates what the file names and leaves everything else alone. " +
      "The file is applied as a whole or not at all, and a second run changes nothing. A key without a value is " +
      "generated and printed once. A missing data directory is created. Works while a server runs.",
  ],
  options: { ...NEW_DATABASE_OPTION, ...DATA_OPTIONS, ...NAMED_DATA_OPTION },
  takesConfig: false,
  namesData: true,
  positionals: { min: 1, max: 1, names: ["FILE"] },
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io, apply);
    const file = args.positionals[0] ?? "";
    const plan = await readApplyFile(io, file);
    const opening = { create: true, mayBeginAnew: args.switches.has(NEW_DATABASE) };
    const changes = await withOperator(directory, { command: "apply", opening }, (operator) =>
      applyPlanFile(operator, { plan, name: file }),
    );
    return printResult(io, args, { json: { changes }, text: describeChanges(changes) });
  },
};
