/** `assay config`: what can be set, and what is set. */
import { explainConfig } from "../../config/resolve.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { OPTIONS, ROWS } from "../../config/options.ts";
import type { Option } from "../../config/options.ts";
import { configure } from "../command-config.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

export const configExplain: Command = {
  name: "config explain",
  summary: "Tell every option: its names, what it takes, its default",
  usage: "[OPTION]",
  details: [
    "Each can be given as a flag, as a variable or as a key of the YAML file that --config names; a flag beats a variable,",
    "which beats the file.",
  ],
  options: {},
  takesConfig: false,
  positionals: { least: 0, most: 1, names: ["OPTION"], words: Object.values(OPTIONS).map(({ flag }) => flag) },
  check({ positionals: [asked] }) {
    if (asked === undefined || optionsCalled(asked).length > 0) return [];
    return [`there is no option ${JSON.stringify(truncate(asked, 100))}; assay config explain lists all`];
  },
  async run(args, io) {
    const [asked] = args.positionals;
    const rows = asked === undefined ? ROWS : optionsCalled(asked);
    if (args.switches.has("json")) {
      const shown = rows.map(({ flag, variable, key, placeholder, accepts, default: preset, description, secret }) => ({
        flag: `--${flag}`,
        variable,
        key,
        placeholder,
        accepts,
        default: preset,
        description,
        secret,
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

/** The options that somebody calls so: by flag, variable or key. */
function optionsCalled(word: string): readonly Option[] {
  const name = word.replace(/^--/, "").replaceAll("_", "-");
  return ROWS.filter(({ flag, variable }) => flag === name || variable === word);
}

export const configShow: Command = {
  name: "config show",
  summary: "Show the effective value of every option and where it came from",
  usage: "[OPTIONS]",
  details: [
    "Takes the same flags, variables and file as assay serve, and refuses what that would refuse. Secrets are masked.",
  ],
  options: {},
  takesConfig: true,
  configuration: { complete: true },
  async run(args, io) {
    const { config, sources } = await configure(args.flags, io, configShow.configuration);
    const shown = explainConfig(config, sources);
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ options: shown })}\n`);
    else {
      const width = Math.max(...shown.map(({ option }) => option.length)) + 2;
      const lines = shown.map(
        ({ option, value, source }) => `${option.padEnd(width)}${value ?? "(not set)"}  [${source}]\n`,
      );
      io.stdout(lines.join(""));
    }
    return EXIT.done;
  },
};
