/** `assay config`: what can be set, and what is set. */
import { explainConfig, missingOptions } from "../config.ts";
import { OPTIONS } from "../options.ts";
import { configure } from "./configuration.ts";
import { commandFailure, EXIT } from "./frame.ts";
import type { Command } from "./frame.ts";

export const configExplain: Command = {
  name: "config explain",
  summary: "Tell every option: its names, what it takes, its default",
  usage: "[OPTION]",
  details: ["Each can be given as a flag, as a variable or as a key of the YAML file that --config names; a flag beats a variable,", "which beats the file."],
  options: {},
  takesConfig: false,
  positionals: { least: 0, most: 1, words: Object.values(OPTIONS).map(({ flag }) => flag) },
  async run(args, io) {
    const [asked] = args.positionals;
    const name = asked?.replace(/^--/, "").replaceAll("_", "-");
    const rows = Object.values(OPTIONS).filter(({ flag, variable }) => name === undefined || flag === name || variable === asked);
    if (rows.length === 0) throw commandFailure(`there is no option ${JSON.stringify(asked?.slice(0, 100))}; see assay config explain`, EXIT.usage);
    if (args.switches.has("json")) {
      const shown = rows.map(({ flag, variable, key, placeholder, accepts, default: preset, description, secret }) => ({
        flag: `--${flag}`, variable, key, placeholder, accepts, default: preset, description, secret,
      }));
      io.stdout(`${JSON.stringify({ options: shown })}\n`);
    } else {
      const texts = rows.map((row) =>
        [
          `--${row.flag} ${row.placeholder}`,
          `    ${row.description}.`,
          `    variable ${row.variable}${row.key === null ? "" : `, key ${row.key}`}${row.default === null ? "" : `, default ${row.default}`}${row.secret ? ", secret" : ""}`,
          `    takes ${row.accepts}`,
        ].join("\n"),
      );
      io.stdout(`${texts.join("\n\n")}\n`);
    }
    return EXIT.done;
  },
};

export const configShow: Command = {
  name: "config show",
  summary: "Show the effective value of every option and where it came from",
  usage: "[OPTIONS]",
  details: ["Takes the same flags, variables and file as assay serve, and refuses what that would refuse. Secrets are masked."],
  options: {},
  takesConfig: true,
  async run(args, io) {
    const { config, sources } = await configure(args.flags, io);
    const missing = missingOptions(config);
    if (missing.length > 0) throw commandFailure(missing, EXIT.usage);
    const shown = explainConfig(config, sources);
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ options: shown })}\n`);
    else {
      const width = Math.max(...shown.map(({ option }) => option.length)) + 2;
      const lines = shown.map(({ option, value, source }) => `${option.padEnd(width)}${value ?? "(not set)"}  [${source}]\n`);
      io.stdout(lines.join(""));
    }
    return EXIT.done;
  },
};
