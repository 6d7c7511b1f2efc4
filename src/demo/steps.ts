/**
 * A story is a list of steps, and a step is a few requests at a time in the past. They are made in the order of time,
 * on a server whose clock is set before each of them.
 */
import { createHash } from "node:crypto";
import type { Store } from "../store/index.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The time of day that a story calls now: steps of today have to lie before it. */
const NOW_OF_DAY = 11 * HOUR + 24 * MINUTE;

/** Whole days before the end of the story and a time of day: `12d 09:14`. Today is `0d`. */
export type StoryTime = `${number}d ${number}:${number}`;

/** What the tables of a story turn into times with: epoch seconds of a moment, for a story that ends at `now`. */
export type Calendar = { now: number; time(moment: StoryTime): number };

export function calendarUntil(now: number): Calendar {
  return {
    now,
    time(moment) {
      const [, days, hours, minutes] = /^(\d+)d (\d\d):(\d\d)$/.exec(moment) ?? [];
      if (minutes === undefined) throw new Error(`'${moment}' is not a moment such as '12d 09:14'`);
      return now - Number(days) * DAY - NOW_OF_DAY + Number(hours) * HOUR + Number(minutes) * MINUTE;
    },
  };
}

/** A file of a form. @property name of the field */
export type FormFile = { name: string; filename: string; content: string | Buffer; type?: string };
/** A form as clients send it: JSON in the field `data_json` unless `field` is given, and a file. */
export type StoryForm = { json?: unknown; file?: FormFile; field?: string };
export type DemoRequest = { key: string; body?: unknown; form?: StoryForm };

/** A server whose clock can be set. */
export type DemoServer = {
  store: Store;
  /** Epoch seconds. */
  clock: { at: number };
  newId(): string;
  newSecret(): string;
  writer: { run<T>(work: () => T): Promise<T> };
  /** Sends a request to a path below the root of the API. `body` is null unless the answer is JSON. */
  call(method: string, path: string, request: DemoRequest): Promise<{ status: number; body: any; text: string }>;
  /** Resolves when the work that the requests caused in the background is done. */
  settled(): Promise<void>;
};

/** The public address of the server in messages, none of which leaves it. */
export const SERVER_URL = "http://localhost:8001";

export type Step = { at: number; make(teller: Teller): Promise<unknown> };

export type Teller = {
  server: DemoServer;
  /** The keys of everybody who acts, by name. */
  keys: Map<string, string>;
  /** Sends a request with the key of `by` and returns the body of the answer. @throws Error unless it is 2xx */
  send(method: string, path: string, request: Omit<DemoRequest, "key"> & { by: string }): Promise<any>;
};

/** @param keys grows with the story */
export const createTeller = (server: DemoServer, keys = new Map<string, string>()): Teller => ({
  server,
  keys,
  async send(method, path, { by, ...request }) {
    const key = keys.get(by);
    if (key === undefined) throw new Error(`'${by}' has no key at this point of the story`);
    const { status, body, text } = await server.call(method, path, { ...request, key });
    if (status < 200 || status > 299) throw new Error(`${by}: ${method} ${path}: ${status} ${text}`);
    return body;
  },
});

/**
 * Makes the steps in the order of time. Work that a step caused in the background ends before the next step.
 * @param options.onStep called before each step with its number, from 0, and with that of all steps
 * @throws the reason of the signal when it aborts between two steps
 */
export async function tell(
  teller: Teller,
  steps: readonly Step[],
  { onStep, signal }: { onStep?(step: number, steps: number): void; signal?: AbortSignal } = {},
): Promise<void> {
  const { clock, writer, store, settled } = teller.server;
  for (const [index, { at, make }] of steps.toSorted((one, other) => one.at - other.at).entries()) {
    signal?.throwIfAborted();
    onStep?.(index, steps.length);
    clock.at = at;
    // Days without a step would otherwise look like a clock that jumped.
    await writer.run(() => store.clock.confirm(at));
    await make(teller);
    await settled();
  }
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

/** A fingerprint of 64 hex digits, the same in every run. @param start its first digits */
export const fingerprintOf = (name: string, start = ""): string => start + digest(name).slice(start.length);
/** A commit of 40 hex digits, the same in every run. @param start its first digits */
export const commitOf = (name: string, start = ""): string => start + digest(name).slice(start.length, 40);
