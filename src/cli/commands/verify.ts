/** `assay verify`: whether everything that is stored is whole, and says what it said when it was stored. Reads only. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemSources } from "../../server/app.ts";
import type { CheckResult } from "../../diagnostics/verify/verify.ts";
import { isDamagedFile } from "../../diagnostics/verify/check.ts";
import { verifyInstallation as inspect } from "../../diagnostics/verify/verify.ts";
import { IN_DIRECTORY, findRecordedLocation } from "../../store/flows/evidence-location.ts";
import { ForeignDatabaseError } from "../../store/db/database.ts";
import type { Vault } from "../../evidence/local-store.ts";
import { listStaged } from "../../evidence/staging.ts";
import { EVIDENCE_OPTIONS, evidenceDirectory } from "../command-config.ts";
import { openEvidence, placeFor, withDataReadOnly } from "../data-directory.ts";
import { EXIT, oneLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { showProgress } from "../progress.ts";

export const verify: Command = {
  name: "verify",
  summary: "Check the database, every evidence file and every stored verdict",
  usage: "[--quick] --data DIRECTORY",
  details: [
    "Checks the pages and references of the database, its tables, what is derived from others, every stored verdict against",
    "one judged again, the audit log, and the digest of every evidence file. Exit code 0 when all is well, 5 when damage was",
    "found, 1 when something could not be checked. Changes nothing, and works while the server runs.",
  ],
  options: {
    quick: {
      kind: "switch",
      description: "Do not read the contents of evidence, only that each file is there and of the right size",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const { directory, access } = await evidenceDirectory(args, io);
    const json = args.switches.has("json");
    const quick = args.switches.has("quick");
    const progress = showProgress(io, json);
    const results = await withDataReadOnly(directory, async (db) => {
      const recorded = findRecordedLocation(db);
      const elsewhere = placeFor(recorded, access) !== IN_DIRECTORY;
      const vault =
        elsewhere || existsSync(join(directory, "evidence"))
          ? (await openEvidence(directory, access, recorded)).vault
          : null;
      try {
        return await inspect({
          db,
          vault: vault ?? NO_EVIDENCE,
          staged: listStaged(join(directory, "staging")),
          quick,
          now: systemSources.now(),
          progress,
        });
      } finally {
        progress.end();
        await vault?.close();
      }
    }).catch(unrecognizable);
    const damage = results.reduce((sum, result) => sum + result.damage, 0);
    if (json) io.stdout(`${JSON.stringify({ data: directory, quick, damage, checks: results.map(resultJson) })}\n`);
    else writeText(io, results, quick);
    return damage > 0 ? EXIT.damaged : EXIT.done;
  },
};

/**
 * A file that cannot even be opened has lost its first pages or its end, or was put in the place of a database of
 * Assay.
 */
function unrecognizable(error: unknown): CheckResult[] {
  if (!(error instanceof ForeignDatabaseError) && !(error instanceof Error && isDamagedFile(error))) throw error;
  return [
    {
      name: "integrity",
      looked: {},
      findings: [{ about: "assay.db", problem: error.message }],
      damage: 1,
      notes: [],
      noted: 0,
    },
  ];
}

const NO_EVIDENCE: Pick<Vault, "list" | "read" | "describe"> = {
  async *list() {},
  async *read() {},
  describe: async () => null,
};

const resultJson = ({ name, looked, damage, findings, noted, notes }: CheckResult) => ({
  check: name,
  ok: damage === 0,
  looked_at: looked,
  damage,
  findings,
  noted,
  notes,
});

/** Findings of one check on the terminal; --json has a thousand of them. */
const MOST_SHOWN = 20;

function writeText(io: Io, results: readonly CheckResult[], quick: boolean): void {
  const width = Math.max(...results.map(({ name }) => name.length)) + 2;
  for (const { name, looked, damage, findings, noted, notes } of results) {
    const counts = Object.entries(looked)
      .map(([what, count]) => `${count} ${what}`)
      .join(", ");
    io.stdout(`${`${damage > 0 ? "DAMAGE" : "ok"}`.padEnd(8)}${name.padEnd(width)}${counts}\n`);
    for (const { about, problem } of findings.slice(0, MOST_SHOWN))
      io.stdout(`        ${oneLine(about)}: ${oneLine(problem)}\n`);
    if (damage > MOST_SHOWN) io.stdout(`        and ${damage - MOST_SHOWN} more; --json tells more of them\n`);
    for (const { about, problem } of notes.slice(0, MOST_SHOWN))
      io.stdout(`        note: ${oneLine(about)} ${oneLine(problem)}\n`);
    if (noted > MOST_SHOWN) io.stdout(`        note: and ${noted - MOST_SHOWN} more of these\n`);
  }
  const damaged = results.filter(({ damage }) => damage > 0);
  const sum = damaged.reduce((total, { damage }) => total + damage, 0);
  const scope = quick ? "; the contents of evidence were not read" : "";
  if (sum === 0) io.stdout(`All ${results.length} checks passed${scope}.\n`);
  else
    io.stdout(
      `Damage: ${sum} ${sum === 1 ? "problem" : "problems"} in ${damaged.map(({ name }) => name).join(", ")}${scope}. Keep the directory as it is and read assay help verify.\n`,
    );
}
