/** Prints what a check found in a file that an operator wrote. */
import { listDiagnostics } from "../../../domain/policy/diagnostics.ts";
import type { Diagnostic, FileProblem } from "../../../domain/policy/diagnostics.ts";
import type { Args } from "../../args.ts";
import { EXIT, escapeLine } from "../../framework.ts";
import type { Io } from "../../framework.ts";

/** The problems of a file are why it would be refused; the warnings say what in it can have no effect. */
type FileReport = { file: string; problems: readonly FileProblem[]; warnings: readonly FileProblem[] };

export const createReport = (
  file: string,
  problems: readonly Diagnostic[],
  warnings: readonly Diagnostic[] = [],
): FileReport => ({ file, problems: listDiagnostics(problems), warnings: listDiagnostics(warnings) });

/** One line for each problem or warning, as compilers print them. */
export const renderFileReport = ({ file, problems, warnings }: FileReport): string =>
  [
    ...problems.map((problem) => ({ ...problem, kind: "" })),
    ...warnings.map((warning) => ({ ...warning, kind: "warning: " })),
  ]
    .map(({ line, column, path, message, kind }) => {
      const place = path === "" ? "" : `${path}: `;
      return `${escapeLine(`${file}:${line}:${column}: ${kind}${place}${message}`)}\n`;
    })
    .join("");

/** Prints a report; returns the exit code. Warnings do not make it a failure. */
export function printReport(io: Io, { switches }: Args, report: FileReport): number {
  const { problems, warnings } = report;
  const valid = problems.length === 0;
  io.stdout(switches.has("json") ? `${JSON.stringify({ valid, problems, warnings })}\n` : renderFileReport(report));
  return valid ? EXIT.done : EXIT.failed;
}
