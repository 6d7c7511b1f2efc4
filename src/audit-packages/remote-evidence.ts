/**
 * Attached files on their way into a package where they are on storage elsewhere: the thread that makes packages is
 * synchronous, and asks the main thread for them. Before a package begins all its files are looked at, so what is
 * missing is left out and told, and a storage that cannot be reached is told before the first byte. Then the content
 * comes in blocks, a few ahead: a file whose next block is not here yet gives an empty piece, and the thread turns to
 * other packages until it comes.
 */
import type { MessagePort } from "node:worker_threads";
import { DamagedMemberError } from "./evidence.ts";
import type { EvidenceFiles } from "./evidence.ts";

/** A file as it lies there: its size, and what tells it from a later one under its name. null: there is none. */
export type Look = { size: number; signature: string } | null;

/** What went wrong with the storage; `kind` says what of. */
export type RemoteFailure = { kind: "unavailable" | "damaged" | "other"; text: string };

/**
 * What the thread asks. A stream is granted `credits` blocks at once and one more with each `more`; `close` ends it.
 */
export type RemoteOrder =
  | { type: "look"; id: number; digests: string[] }
  | { type: "open"; id: number; digest: string; size: number; credits: number }
  | { type: "more"; id: number }
  | { type: "close"; id: number };

/** What it is told. After `end` or `failed` there is no more for this id. */
export type RemoteNews =
  | { type: "looked"; id: number; looks: Look[] }
  | { type: "block"; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { type: "end"; id: number }
  | { type: "failed"; id: number; failure: RemoteFailure };

/** The storage gave no answer. */
export class UnreachableEvidenceError extends Error {
  override readonly name = "UnreachableEvidenceError";
}

/** What a member gives while its next bytes are not here. */
const NOTHING_YET = new Uint8Array(0);

/** Blocks of a file that may be on their way or wait here. */
const CREDITS = 6;

type Waiting = {
  blocks: Uint8Array[];
  ended: boolean;
  failure: RemoteFailure | null;
  looked: ((looks: Look[]) => void) | null;
  refused: ((error: Error) => void) | null;
};

/**
 * @param damaged signatures of files that were found to be damaged, by digest; what is found from now on is added
 * @param arrived is called when something came that a package may have waited for
 */
export function remoteEvidence(port: MessagePort, damaged: Map<string, string>, arrived: () => void) {
  const waiting = new Map<number, Waiting>();
  let lastId = 0;

  port.on("message", (news: RemoteNews) => {
    // What was closed meanwhile is of no interest.
    const one = waiting.get(news.id);
    if (!one) return;
    if (news.type === "looked") one.looked?.(news.looks);
    else if (news.type === "block") one.blocks.push(news.bytes);
    else if (news.type === "end") one.ended = true;
    else if (one.refused) one.refused(errorOf(news.failure));
    else one.failure = news.failure;
    arrived();
  });

  const tell = (order: RemoteOrder): void => port.postMessage(order);

  function add(fields: Partial<Waiting> = {}): number {
    lastId += 1;
    waiting.set(lastId, { blocks: [], ended: false, failure: null, looked: null, refused: null, ...fields });
    return lastId;
  }

  return {
    /** Looks at all these files. @throws UnreachableEvidenceError */
    async look(digests: readonly string[]): Promise<EvidenceFiles> {
      const looks = new Map<string, Look>();
      for (let from = 0; from < digests.length; from += LOOKS) {
        const some = digests.slice(from, from + LOOKS);
        let id = 0;
        const found = await new Promise<Look[]>((looked, refused) => {
          id = add({ looked, refused });
          tell({ type: "look", id, digests: some });
        }).finally(() => waiting.delete(id));
        some.forEach((digest, index) => looks.set(digest, found[index] ?? null));
      }
      return filesOf(looks);
    },
  };

  function filesOf(looks: ReadonlyMap<string, Look>): EvidenceFiles {
    return {
      state(digest, size) {
        const look = looks.get(digest);
        // Attached after the look, a moment ago: it was there before its row was.
        if (look === undefined) return "included";
        if (look === null) return "missing";
        return look.size !== size || damaged.get(digest) === look.signature ? "damaged" : "included";
      },

      *read(digest, size) {
        const id = add();
        tell({ type: "open", id, digest, size, credits: CREDITS });
        try {
          for (;;) {
            const one = waiting.get(id);
            const block = one?.blocks.shift();
            if (block) {
              tell({ type: "more", id });
              yield block;
            } else if (one?.failure) throw failed(digest, one.failure, looks.get(digest) ?? null);
            else if (one?.ended) return;
            else yield NOTHING_YET;
          }
        } finally {
          waiting.delete(id);
          tell({ type: "close", id });
        }
      },
    };
  }

  function failed(digest: string, failure: RemoteFailure, look: Look): Error {
    if (failure.kind !== "damaged" || look === null) return errorOf(failure);
    damaged.set(digest, look.signature);
    return new DamagedMemberError(digest, look.signature, failure.text);
  }
}

/** Files that are asked for at once. */
const LOOKS = 1000;

const errorOf = ({ kind, text }: RemoteFailure): Error =>
  kind === "unavailable" ? new UnreachableEvidenceError(text) : new Error(text);
