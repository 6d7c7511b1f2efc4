/**
 * A bar on stderr for work that takes a while. Only a terminal gets one: logs and scripts see nothing of it, and stdout
 * stays free for results.
 */
import { Writable } from "node:stream";
import { SingleBar } from "cli-progress";
import { MB } from "../domain/text/units.ts";
import type { Io } from "./framework.ts";

export type Progress = {
  /** The next part of the work: what it is, and how much of it there is, in `unit`. Ends the part before. */
  begin(what: string, total: number, unit?: "bytes" | "files"): void;
  /** How much of the part is done, as a number that grows up to its total. */
  reach(done: number): void;
  /** Leaves the terminal as it was. May be called more than once; to be called whatever becomes of the work. */
  end(): void;
};

/** Shows how far the work is. With `quiet` (--json), or where stderr is no terminal, nothing is shown. */
export function showProgress(io: Io, quiet = false): Progress {
  if (!io.stderrIsTty || quiet) return { begin: () => undefined, reach: () => undefined, end: () => undefined };
  let bar: SingleBar | null = null;
  const end = (): void => {
    bar?.stop();
    bar = null;
  };
  return {
    begin(what, total, unit = "bytes") {
      end();
      bar = new SingleBar({
        stream: terminalOf(io),
        format: `${what} [{bar}] {value} of {total}, {eta_formatted} left`,
        formatValue: (amount, _, type) =>
          unit === "files" || (type !== "value" && type !== "total") ? String(amount) : megabytes(amount),
        // The whole line has room in 80 columns.
        barsize: 20,
        barCompleteChar: "#",
        barIncompleteChar: ".",
        hideCursor: true,
        clearOnComplete: true,
        fps: 5,
        // Signals are the command's business.
        gracefulExit: false,
      });
      bar.start(total, 0);
    },
    reach: (done) => bar?.update(done),
    end,
  };
}

const megabytes = (bytes: number): string => `${(bytes / MB).toFixed(bytes < 10 * MB ? 1 : 0)} MB`;

/** The terminal as a stream, which is what the bar writes to. */
function terminalOf(io: Io): NodeJS.WritableStream {
  const stream = new Writable({
    write(text: Buffer, _, done) {
      io.stderr(text.toString());
      done();
    },
  });
  return Object.assign(stream, { isTTY: true });
}
