/**
 * The main thread's side of uploaded template and policy files. Small ones are read at once; large ones in a thread
 * with a clock and a bounded heap, because reading them may take a second and hundred megabytes. Organizations are the
 * lanes of the pool: they take turns.
 */
import { MAX_INLINE_DOCUMENT_BYTES, readPolicyFile, readTemplateFile } from "../domain/documents.ts";
import type { PolicyFile, DocumentRefusal, TemplateFile } from "../domain/documents.ts";
import { AppError, invalid, unavailable } from "../errors.ts";
import type { DocumentResult, DocumentTask } from "./document-worker.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "./pool.ts";
import type { Pool } from "./pool.ts";

/** A file as it is stored; `parsedJson` is null where reading the text again is as cheap. */
export type StoredTemplateFile = Omit<TemplateFile, "parsedJson"> & { parsedJson: string | null };
export type StoredPolicyFile = Omit<PolicyFile, "parsedJson"> & { parsedJson: string | null };

export type DocumentReader = {
  /**
   * Reads an uploaded template. `lane`: whose it is. The bytes are given away: they may move to the thread.
   * @throws AppError invalid on `template_file` (messages 12), too_large when it takes more time or memory than it may,
   * unavailable when the server is too busy.
   */
  readTemplate(lane: string, bytes: Buffer): Promise<StoredTemplateFile>;
  /** Reads an uploaded policy. @throws AppError as above, on `policy_file` (messages 13). */
  readPolicy(lane: string, bytes: Buffer): Promise<StoredPolicyFile>;
};

export type DocumentPool = Pool<DocumentTask, DocumentResult>;

/** For one file; the worst that was found takes a quarter of it on a busy machine. */
const MAX_READING_MS = 5_000;
/** To wait for the thread: shorter than clients wait for an answer. */
const MAX_WAITING_MS = 10_000;

/** A buffer of its own moves to the thread; a part of a shared one has to be copied. */
const ownBuffer = ({ buffer, byteLength }: Uint8Array): ArrayBuffer[] =>
  buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];

const tooCostly = (message: string): AppError => new AppError("too_large", message);

export function createDocumentReader(pool: DocumentPool): DocumentReader {
  async function inThread(field: string, lane: string, task: DocumentTask): Promise<DocumentResult> {
    try {
      return await pool.run(task, {
        lane,
        allowanceMs: MAX_READING_MS,
        deadlineMs: MAX_WAITING_MS,
        transfer: ownBuffer(task.bytes),
      });
    } catch (error) {
      if (error instanceof DeadlineError && error.started) {
        throw tooCostly(
          `${field}: the file could not be read within ${MAX_READING_MS / 1000} seconds. Send a shorter one`,
        );
      }
      if (error instanceof WorkerDiedError && error.began) {
        throw tooCostly(`${field}: the file takes more memory to read than one file may. Send a shorter one`);
      }
      const isBusy = [DeadlineError, WorkerDiedError, QueueFullError, PoolClosedError].some(
        (kind) => error instanceof kind,
      );
      throw isBusy ? unavailable("Large files keep the server busy. Please try again", 2, error) : error;
    }
  }

  async function read<File extends TemplateFile | PolicyFile>(
    field: string,
    lane: string,
    task: DocumentTask & { bytes: Buffer },
    readInline: (bytes: Buffer) => File | DocumentRefusal,
  ): Promise<Omit<File, "parsedJson"> & { parsedJson: string | null }> {
    const isSmall = task.bytes.length <= MAX_INLINE_DOCUMENT_BYTES;
    const result = isSmall ? readInline(task.bytes) : ((await inThread(field, lane, task)) as File | DocumentRefusal);
    if ("refusal" in result) throw invalid({ [field]: result.refusal });
    return isSmall ? { ...result, parsedJson: null } : result;
  }

  return {
    readTemplate: (lane, bytes) => read("template_file", lane, { kind: "template", bytes }, readTemplateFile),
    readPolicy: (lane, bytes) => read("policy_file", lane, { kind: "policy", bytes }, readPolicyFile),
  };
}
