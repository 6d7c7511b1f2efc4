/**
 * Parses uploaded template and policy files, and SBOMs, for the main thread: small files at once, large ones in a
 * worker thread with a timeout and a bounded heap, because parsing may take a second and a hundred megabytes.
 * Organizations are the lanes of the pool, so they take turns.
 */
import { MAX_INLINE_DOCUMENT_BYTES, readPolicyFile, readTemplateFile } from "../domain/documents.ts";
import type { PolicyFile, DocumentRefusal, TemplateFile } from "../domain/documents.ts";
import type { TemplateLines } from "../domain/flow-template/lines.ts";
import type { PolicyLines } from "../domain/policy/lines.ts";
import { createLru } from "../domain/lru.ts";
import { TOO_COMPLEX } from "../domain/sbom/document.ts";
import type { ReadDocument } from "../domain/sbom/document.ts";
import { AppError, invalidText, unavailable } from "../errors.ts";
import { createConcurrencyLimit } from "./concurrency-limit.ts";
import type { DocumentResult, DocumentTask } from "./document-worker.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "./pool.ts";
import type { Pool } from "./pool.ts";
import { readBoundedSbom } from "./sbom-document.ts";
import { transferableOf } from "./transfer.ts";

/** A file in its stored form; `parsedJson` is null if parsing the text again is as cheap. */
export type StoredTemplateFile = Omit<TemplateFile, "parsedJson"> & { parsedJson: string | null };
export type StoredPolicyFile = Omit<PolicyFile, "parsedJson"> & { parsedJson: string | null };

export type DocumentReader = {
  /**
   * Parses an uploaded template. Do not use the bytes afterwards: they may move to the thread.
   * @param lane the organization that uploads it
   * @throws AppError invalid on `template_file` (messages 12) with its `problems`, too_large if it exceeds the limits
   *   on time or memory, unavailable if the server is too busy
   */
  readTemplate(lane: string, bytes: Buffer): Promise<StoredTemplateFile>;
  /** Parses an uploaded policy. @throws AppError as readTemplate, on `policy_file` (messages 13) */
  readPolicy(lane: string, bytes: Buffer): Promise<StoredPolicyFile>;
  /**
   * Locates the rules of a stored policy in a thread, for a text that is too long for the main thread.
   * @returns null if that exceeds the limits on time or memory
   * @throws AppError unavailable if the server is too busy
   */
  locateRules(lane: string, text: string): Promise<PolicyLines | null>;
  /** Locates the expectations of a stored template, as locateRules. */
  locateExpectations(lane: string, text: string): Promise<TemplateLines | null>;
  /**
   * Reads an SBOM of at most MAX_SBOM_BYTES, once: results are kept by its digest.
   * @param load its bytes, which are in memory of two SBOMs at a time; rejects as it does
   * @throws AppError unavailable if the server is too busy
   */
  readSbom(lane: string, digest: string, load: () => Promise<Buffer>): Promise<ReadDocument>;
};

export type DocumentPool = Pool<DocumentTask, DocumentResult>;

/** For one file; the worst case found takes a quarter of it on a busy machine. */
const MAX_READING_MS = 5_000;
/** For the wait for a thread: shorter than the 30 s for which Terraform waits for a response. */
const MAX_WAITING_MS = 25_000;

/** SBOMs whose results are kept; each takes some hundred bytes. */
const MAX_KEPT_SBOMS = 1_000;
/** SBOMs that are in memory at once, for the next to be at hand when the thread is free. */
const MAX_LOADED_SBOMS = 2;

const tooCostly = (message: string): AppError => new AppError("too_large", message);

export function createDocumentReader(pool: DocumentPool): DocumentReader {
  async function readInThread(field: string, lane: string, task: DocumentTask): Promise<DocumentResult> {
    try {
      return await pool.run(task, {
        lane,
        allowanceMs: MAX_READING_MS,
        deadlineMs: MAX_WAITING_MS,
        transfer: transferableOf(task.bytes),
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
    lane: string,
    bytes: Buffer,
    { field, kind, parse }: DocumentKind<File>,
  ): Promise<Omit<File, "parsedJson"> & { parsedJson: string | null }> {
    const isSmall = bytes.length <= MAX_INLINE_DOCUMENT_BYTES;
    const result = isSmall
      ? parse(bytes)
      : ((await readInThread(field, lane, { kind, bytes })) as File | DocumentRefusal);
    if ("refusal" in result) throw invalidText(field, result.refusal, result.problems);
    return isSmall ? { ...result, parsedJson: null } : result;
  }

  async function locate<Lines>(lane: string, kind: DocumentTask["kind"], text: string): Promise<Lines | null> {
    try {
      const result = await readInThread("lines", lane, { kind, bytes: Buffer.from(text) });
      return (result as { lines: Lines }).lines;
    } catch (error) {
      if (error instanceof AppError && error.code === "too_large") return null;
      throw error;
    }
  }

  const sboms = createLru<string, ReadDocument>({ maxEntries: MAX_KEPT_SBOMS });
  const loading = createConcurrencyLimit(MAX_LOADED_SBOMS);

  async function readSbom(lane: string, digest: string, load: () => Promise<Buffer>): Promise<ReadDocument> {
    const known = sboms.get(digest);
    if (known) return known;
    const read = await loading.run(async () => {
      const bytes = await load();
      if (bytes.length <= MAX_INLINE_DOCUMENT_BYTES) return readBoundedSbom(bytes);
      try {
        return ((await readInThread("sbom", lane, { kind: "sbom", bytes })) as { sbom: ReadDocument }).sbom;
      } catch (error) {
        if (error instanceof AppError && error.code === "too_large") return TOO_COMPLEX;
        throw error;
      }
    });
    sboms.set(digest, read);
    return read;
  }

  return {
    readSbom,
    locateRules: (lane, text) => locate<PolicyLines>(lane, "policy_lines", text),
    locateExpectations: (lane, text) => locate<TemplateLines>(lane, "template_lines", text),
    readTemplate: (lane, bytes) => read(lane, bytes, TEMPLATE),
    readPolicy: (lane, bytes) => read(lane, bytes, POLICY),
  };
}

type DocumentKind<File> = {
  /** The form field of the upload, for errors. */
  field: string;
  kind: DocumentTask["kind"];
  parse: (bytes: Buffer) => File | DocumentRefusal;
};
const TEMPLATE: DocumentKind<TemplateFile> = { field: "template_file", kind: "template", parse: readTemplateFile };
const POLICY: DocumentKind<PolicyFile> = { field: "policy_file", kind: "policy", parse: readPolicyFile };
