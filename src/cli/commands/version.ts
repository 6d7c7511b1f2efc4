/** `assay version`: the versions of the program and its main components. */
import { readBuildInfo } from "../../assets.ts";
import { JQ_VERSION } from "../../domain/attestation/custom.ts";
import { readEngineFacts } from "../../rego/engine-module.ts";
import { openMemory, schemaVersion } from "../../store/db/database.ts";
import { loadSqlite } from "../data-directory.ts";
import { EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

export const version: Command = {
  name: "version",
  summary: "Print the versions of Assay and its main components",
  usage: "",
  options: {},
  takesConfig: false,
  async run(args, io) {
    loadSqlite(null);
    const db = openMemory();
    const sqlite = db.prepare<[], string>("SELECT sqlite_version()").pluck().get() ?? "";
    db.close();
    const opa = readEngineFacts();
    const facts = {
      version: readBuildInfo().version,
      commit: readBuildInfo().commit,
      node: process.version,
      sqlite,
      jq: JQ_VERSION,
      opa: opa.opa,
      rego_engine: opa.sha256,
      schema: schemaVersion(),
    };
    if (args.switches.has("json")) io.stdout(`${JSON.stringify(facts)}\n`);
    else {
      const { commit, node, jq, rego_engine, schema } = facts;
      io.stdout(
        `assay ${facts.version}\ncommit ${commit ?? "unknown"}\nnode ${node}\nsqlite ${sqlite}\njq ${jq}\n` +
          `opa ${facts.opa}\nrego-engine ${rego_engine}\nschema ${schema}\n`,
      );
    }
    return EXIT.done;
  },
};
