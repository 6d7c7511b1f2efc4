/**
 * Starts one of the threads that evaluate on a connection of their own. Both need the stores and the policy language,
 * a megabyte of code, so they share a file of the executable and load their part of it.
 */
import { workerData } from "node:worker_threads";
import type { RecordingWorkerData } from "./recording-thread.ts";
import type { PreviewWorkerData } from "./policy-preview-thread.ts";

const { thread } = workerData as RecordingWorkerData | PreviewWorkerData;
// A failure is an unhandled rejection, which ends the thread with its error.
if (thread === "recording") void import("./recording-thread.ts");
else void import("./policy-preview-thread.ts");
