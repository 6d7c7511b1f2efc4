/** `assay verify`: checks that all stored data is intact and that every verdict still follows from it. Read-only. */
import type { CheckResult } from "../../diagnostics/verify/verify.ts";
import { EVIDENCE_OPTIONS, resolveEvidenceAccess } from "../command-config.ts";
import { EXIT, escapeLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { showProgress } from "../progress.ts";
import { verifyData } from "../verify-data.ts";

export const verify: Command = {
  name: "verify",
  summary: "Check the database, every evidence file and every stored verdict",
  usage: "[--quick] [--data DIRECTORY]",
  details: [
    "Checks the pages and references of the database, its tables and derived data, the audit log, and the digest " +
      "of every evidence file, and re-evaluates every stored verdict. Exit code 0 if everything is intact, 5 if " +
      "there is damage, 1 if something could not be checked. Changes nothing, and works while the server runs.",
  ],
  options: {
    quick: {
      kind: "switch",
      description: "Check only the presence and size of evidence files, not their contents",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const { directory, access } = await resolveEvidenceAccess(args, io);
    const json = args.switches.has("json");
    const quick = args.switches.has("quick");
    const progress = showProgress(io, { quiet: json });
    const results = await verifyData(directory, access, { quick, progress });
    const damage = results.reduce((sum, result) => sum + result.damageCount, 0);
    if (json) io.stdout(`${JSON.stringify({ data: directory, quick, damage, checks: results.map(presentResult) })}\n`);
    else writeText(io, results, { quick });
    return damage > 0 ? EXIT.damaged : EXIT.done;
  },
};

const presentResult = ({
  name,
  counts: looked,
  damageCount: damage,
  findings,
  noteCount: noted,
  notes,
}: CheckResult) => ({
  check: name,
  ok: damage === 0,
  looked_at: looked,
  damage,
  findings,
  noted,
  notes,
});

/** Findings per check on the terminal; --json lists up to a thousand. */
const MAX_SHOWN_FINDINGS = 20;

function writeText(io: Io, results: readonly CheckResult[], { quick }: { quick: boolean }): void {
  const width = Math.max(...results.map(({ name }) => name.length)) + 2;
  for (const { name, counts: looked, damageCount: damage, findings, noteCount: noted, notes } of results) {
    const counts = Object.entries(looked)
      .map(([what, count]) => `${count} ${what}`)
      .join(", ");
    io.stdout(`${`${damage > 0 ? "DAMAGE" : "ok"}`.padEnd(8)}${name.padEnd(width)}${counts}\n`);
    for (const { about, problem } of findings.slice(0, MAX_SHOWN_FINDINGS))
      io.stdout(`        ${escapeLine(about)}: ${escapeLine(problem)}\n`);
    if (damage > MAX_SHOWN_FINDINGS)
      io.stdout(`        and ${damage - MAX_SHOWN_FINDINGS} more; --json shows more of them\n`);
    for (const { about, problem } of notes.slice(0, MAX_SHOWN_FINDINGS))
      io.stdout(`        note: ${escapeLine(about)} ${escapeLine(problem)}\n`);
    if (noted > MAX_SHOWN_FINDINGS) io.stdout(`        note: and ${noted - MAX_SHOWN_FINDINGS} more of these\n`);
  }
  const damaged = results.filter(({ damageCount: damage }) => damage > 0);
  const sum = damaged.reduce((total, { damageCount: damage }) => total + damage, 0);
  const scope = quick ? "; the contents of evidence were not read" : "";
  if (sum === 0) io.stdout(`All ${results.length} checks passed${scope}.\n`);
  else {
    const problems = `${sum} ${sum === 1 ? "problem" : "problems"} in ${damaged.map(({ name }) => name).join(", ")}`;
    io.stdout(`Damage: ${problems}${scope}. Leave the directory as it is and read assay help verify.\n`);
  }
}
