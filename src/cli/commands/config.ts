/** `assay config`: shows the available options and their effective values. */
import { explainConfig } from "../../config/resolve.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { OPTIONS, OPTION_ROWS, describeDefault } from "../../config/options.ts";
import type { Option } from "../../config/options.ts";
import { loadConfig } from "../command-config.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

export const configExplain: Command = {
  name: "config explain",
  summary: "Describe the configuration options: names, accepted values, defaults",
  usage: "[OPTION]",
  details: [
    "Set an option with a flag, an environment variable or a key of the YAML file that --config names. A flag " +
      "overrides a variable, and a variable overrides the file.",
  ],
  options: {},
  takesConfig: false,
  positionals: { min: 0, max: 1, names: ["OPTION"], words: Object.values(OPTIONS).map(({ flag }) => flag) },
  check({ positionals: [word] }) {
    if (word === undefined || findOptions(word).length > 0) return [];
    return [`there is no option ${JSON.stringify(truncate(word, 100))}; assay config explain lists all`];
  },
  async run(args, io) {
    const [word] = args.positionals;
    const rows = word === undefined ? OPTION_ROWS : findOptions(word);
    if (args.switches.has("json")) {
      const options = rows.map(({ flag, variable, key, placeholder, accepts, description, secret, ...row }) => ({
        flag: `--${flag}`,
        variable,
        key,
        placeholder,
        accepts,
        default: describeDefault(row),
        description,
        secret,
      }));
      io.stdout(`${JSON.stringify({ options })}\n`);
    } else {
      const texts = rows.map((row) =>
        [
          `--${row.flag} ${row.placeholder}`,
          `    ${row.description}.`,
          `    ${[
            `variable ${row.variable}`,
            ...(row.key === null ? [] : [`key ${row.key}`]),
            ...(describeDefault(row) === null ? [] : [`default ${describeDefault(row)}`]),
            ...(row.secret ? ["secret"] : []),
          ].join(", ")}`,
          `    accepts ${row.accepts}`,
        ].join("\n"),
      );
      io.stdout(`${texts.join("\n\n")}\n`);
    }
    return EXIT.done;
  },
};

/** Finds the options with this flag, variable or key. */
function findOptions(word: string): readonly Option[] {
  const name = word.replace(/^--/, "").replaceAll("_", "-");
  return OPTION_ROWS.filter(({ flag, variable }) => flag === name || variable === word);
}

export const configShow: Command = {
  name: "config show",
  summary: "Show the effective value of every option and where it came from",
  usage: "[OPTIONS]",
  details: [
    "Takes the same flags, variables and file as assay serve, and reports the same mistakes. Secrets are masked.",
  ],
  options: {},
  takesConfig: true,
  configuration: { defaultData: true, complete: true },
  async run(args, io) {
    const { config, sources } = await loadConfig(args.flags, io, configShow.configuration);
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
