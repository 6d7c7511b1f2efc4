/** `assay apply`: organizations, users, members, accounts and keys as a file declares them. */
import { describeChanges } from "../apply/apply-plan.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { applyWhole, readPlan } from "./serve.ts";

export const apply: Command = {
  name: "apply",
  summary: "Create and change organizations, users and keys as a YAML file says",
  usage: "FILE --data DIRECTORY",
  details: [
    "FILE may be - for standard input. What the file names is created, or brought to what the file says; what it does not",
    "name stays as it is. All of it is applied or nothing, and a second run changes nothing. A key without a text is minted",
    "and printed once. The data directory is created where it is missing. Works while a server runs on it.",
  ],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["FILE"] },
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const file = args.positionals[0] ?? "";
    const plan = await readPlan(io, file);
    const changes = withData(directory, (data) => applyWhole(data, plan, file, "apply"), true);
    io.stdout(args.switches.has("json") ? `${JSON.stringify({ changes })}\n` : describeChanges(changes, true));
    return EXIT.done;
  },
};
