/** `assay licenses` and `assay sbom`: the components of the executable, read from its own assets. */
import { BILL_OF_MATERIALS, LICENSES, listAssets, readTextAsset } from "../../assets.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

export const licenses: Command = {
  name: "licenses",
  summary: "Print the license texts of all components in the executable",
  usage: "",
  options: {},
  takesConfig: false,
  async run(args, io) {
    const texts = listAssets(LICENSES).map((key) => ({ file: key.slice(LICENSES.length), text: readTextAsset(key) }));
    if (texts.length === 0) throw notBuilt();
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ licenses: texts })}\n`);
    else
      io.stdout(
        texts
          .map(({ file, text }) => `==> ${file.replace(/\.txt$/, "").replaceAll("__", "/")} <==\n\n${text.trimEnd()}\n`)
          .join("\n"),
      );
    return EXIT.done;
  },
};

export const sbom: Command = {
  name: "sbom",
  summary: "Print the software bill of materials of the executable (CycloneDX, JSON)",
  usage: "",
  options: {},
  takesConfig: false,
  async run(_, io) {
    if (!listAssets(BILL_OF_MATERIALS).includes(BILL_OF_MATERIALS)) throw notBuilt();
    io.stdout(readTextAsset(BILL_OF_MATERIALS));
    return EXIT.done;
  },
};

const notBuilt = (): Error =>
  new CommandError(
    "this program runs from a checkout; only the built executable has this list: run make build, then use dist/assay",
  );
