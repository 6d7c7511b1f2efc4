/** A backup cannot be made; the message is for the operator. */
export class BackupError extends Error {
  override readonly name = "BackupError";
}

/** Evidence that the database names is missing or damaged; one line for each file, up to a limit. */
export class IncompleteEvidenceError extends Error {
  override readonly name = "IncompleteEvidenceError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`evidence is missing or damaged: ${problems.join("; ")}`);
    this.problems = problems;
  }
}
