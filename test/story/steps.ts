/**
 * How a story is told: each part of it is a list of steps, each step is a few requests at a moment of the past. The
 * steps of all parts are made in the order of time, under a clock that is set before each of them.
 */
import { createHash } from "node:crypto";
import type { CallOptions, TestServer } from "../given.ts";

const MINUTE = 60;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** 2026-11-20T11:24:00Z, a Friday: the moment at which the story ends unless another one is given. */
export const STORY_NOW = Date.UTC(2026, 10, 20, 11, 24) / 1000;
const NOW_OF_DAY = 11 * HOUR + 24 * MINUTE;

/** Whole days before the end of the story and a time of day: `12d 09:14`. Today is `0d`. */
export type Moment = `${number}d ${number}:${number}`;

/** What the tables of a story turn into times with: epoch seconds of a moment, for a story that ends at `now`. */
export type Calendar = { now: number; time(moment: Moment): number };

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

export type Step = { at: number; make(teller: Teller): Promise<void> };

type Request = CallOptions & { by: string };
export type Teller = {
  server: TestServer;
  /** The keys of everybody who acts, by name. */
  keys: Map<string, string>;
  /** Sends a request with the key of `by` and returns the body of the answer. @throws Error unless it is 2xx */
  send(method: string, path: string, request: Request): Promise<any>;
};

/** @param keys grows while the story is told */
export const createTeller = (server: TestServer, keys = new Map<string, string>()): Teller => ({
  server,
  keys,
  async send(method, path, { by, ...options }) {
    const key = keys.get(by);
    if (key === undefined) throw new Error(`'${by}' has no key at this point of the story`);
    const { status, body, text } = await server.call(method, path, { ...options, key });
    if (status < 200 || status > 299) throw new Error(`${by}: ${method} ${path}: ${status} ${text}`);
    return body;
  },
});

/** Makes the steps in the order of time. Work that a step caused in the background ends before the next step. */
export async function tell(teller: Teller, steps: readonly Step[]): Promise<void> {
  const { clock, settled } = teller.server;
  for (const { at, make } of steps.toSorted((one, other) => one.at - other.at)) {
    clock.at = at;
    await make(teller);
    await settled();
  }
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

/** A fingerprint of 64 hex digits, the same in every run. @param start its first digits */
export const fingerprintOf = (name: string, start = ""): string => start + digest(name).slice(start.length);
/** A commit of 40 hex digits, the same in every run. @param start its first digits */
export const commitOf = (name: string, start = ""): string => start + digest(name).slice(start.length, 40);

/** Public ids of the usual form, the same in every run: from the time and a count. */
export function countingIds(): (now: number) => string {
  let count = 0;
  return (now) => {
    const time = Math.floor(now * 1000)
      .toString(16)
      .padStart(12, "0");
    const rest = digest(`id ${(count += 1)}`);
    return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(0, 3)}-8${rest.slice(3, 6)}-${rest.slice(6, 14)}`;
  };
}
