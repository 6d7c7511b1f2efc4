/** Runs the checks of `assay verify` on a data directory, wherever its evidence is. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemSources } from "../clock.ts";
import { isDamagedFile } from "../diagnostics/verify/check.ts";
import { verifyInstallation } from "../diagnostics/verify/verify.ts";
import type { CheckResult } from "../diagnostics/verify/verify.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import type { EvidenceAccess } from "../evidence/location.ts";
import { listStaged } from "../evidence/staging.ts";
import { ForeignDatabaseError } from "../store/db/database.ts";
import { countMissingCommits } from "../store/db/lost-commits.ts";
import { IN_DIRECTORY, findRecordedLocation } from "../store/attestations/evidence-location.ts";
import { openEvidence, resolveEvidencePlace, withDataReadOnly } from "./data-directory.ts";
import type { showProgress } from "./progress.ts";

/**
 * @param quick leaves the contents of evidence files unread
 * @throws CommandError and the errors of `withDataReadOnly` where something could not be checked
 */
export const verifyData = (
  directory: string,
  access: EvidenceAccess,
  { quick, progress }: { quick: boolean; progress: ReturnType<typeof showProgress> },
): Promise<CheckResult[]> =>
  withDataReadOnly(directory, async (db) => {
    const recorded = findRecordedLocation(db);
    const elsewhere = resolveEvidencePlace(recorded, access) !== IN_DIRECTORY;
    const evidence =
      elsewhere || existsSync(join(directory, "evidence"))
        ? (await openEvidence(directory, access, recorded)).store
        : null;
    try {
      return await verifyInstallation({
        db,
        store: evidence ?? NO_EVIDENCE,
        staged: listStaged(join(directory, "staging")),
        quick,
        missingCommits: countMissingCommits(directory),
        now: systemSources.now(),
        progress,
      });
    } finally {
      progress.end();
      await evidence?.close();
    }
  }).catch(reportUnreadableDatabase);

/** Reports a database that cannot be opened, because its first pages or its end are lost or the file was replaced. */
function reportUnreadableDatabase(error: unknown): CheckResult[] {
  if (!(error instanceof ForeignDatabaseError) && !(error instanceof Error && isDamagedFile(error))) throw error;
  return [
    {
      name: "integrity",
      counts: {},
      findings: [{ about: "assay.db", problem: error.message }],
      damageCount: 1,
      notes: [],
      noteCount: 0,
    },
  ];
}

const NO_EVIDENCE: Pick<EvidenceStore, "list" | "read" | "describe"> = {
  async *list() {},
  async *read() {},
  describe: async () => null,
};
