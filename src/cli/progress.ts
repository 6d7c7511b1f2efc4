/** A progress bar on stderr for long work. Only a terminal shows it, so it never ends up in logs or results. */
import { Writable } from "node:stream";
import { SingleBar } from "cli-progress";
import { MB } from "../domain/text/units.ts";
import type { Io } from "./framework.ts";

type Progress = {
  /** Starts the next stage with its label and its total in `unit`, and ends the previous stage. */
  begin(what: string, total: number, unit?: "bytes" | "files"): void;
  /** Sets the completed amount of the stage, from 0 to its total. */
  reach(done: number): void;
  /** Removes the bar and restores the terminal. Call it also when the work fails; further calls do nothing. */
  end(): void;
};

/** Shows a progress bar, unless `quiet` is set (--json) or stderr is not a terminal. */
export function showProgress(io: Io, { quiet = false } = {}): Progress {
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
        stream: terminalStreamOf(io),
        format: `${what} [{bar}] {value} of {total}, {eta_formatted} left`,
        formatValue: (amount, _, type) =>
          unit === "files" || (type !== "value" && type !== "total") ? String(amount) : formatMegabytes(amount),
        // Keeps the whole line within 80 columns.
        barsize: 20,
        barCompleteChar: "#",
        barIncompleteChar: ".",
        hideCursor: true,
        clearOnComplete: true,
        fps: 5,
        // The command handles signals.
        gracefulExit: false,
      });
      bar.start(total, 0);
    },
    reach: (done) => bar?.update(done),
    end,
  };
}

const formatMegabytes = (bytes: number): string => `${(bytes / MB).toFixed(bytes < 10 * MB ? 1 : 0)} MB`;

/** Adapts `io.stderr` to the terminal stream that the bar needs. */
function terminalStreamOf(io: Io): NodeJS.WritableStream {
  const stream = new Writable({
    write(text: Buffer, _, done) {
      io.stderr(text.toString());
      done();
    },
  });
  return Object.assign(stream, { isTTY: true });
}
