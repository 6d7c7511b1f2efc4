/**
 * Starts one of the threads that read or evaluate on a connection of their own. All need the stores, a megabyte of
 * code, so they share a file of the executable and load their part of it.
 */
import { workerData } from "node:worker_threads";
import type { InputWorkerData } from "./evaluation-input-thread.ts";
import type { RecordingWorkerData } from "./recording-thread.ts";
import type { PreviewWorkerData } from "./policy-preview-thread.ts";

const { thread } = workerData as RecordingWorkerData | PreviewWorkerData | InputWorkerData;
// A failure is an unhandled rejection, which ends the thread with its error.
if (thread === "recording") void import("./recording-thread.ts");
else if (thread === "policy previews") void import("./policy-preview-thread.ts");
else void import("./evaluation-input-thread.ts");
