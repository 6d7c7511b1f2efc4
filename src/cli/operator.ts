/**
 * Commands that change accounts and settings call operations as the operator: the rules, the transaction and the audit
 * entry are those of the API. What a command line names is looked up in the store, for texts that say what to do.
 *
 * Left out: `user show`, `member list`, `service-account list` and `webhook list` read the store. They show in one
 * list, of one moment, what no operation answers so: logins and live keys, disabled webhooks, members without pages.
 */
import { createOperatorCaller } from "../server/operator/caller.ts";
import type { OperatorCaller } from "../server/operator/caller.ts";
export type { AnswerOf } from "../server/operator/caller.ts";
import { runNumberedSteps } from "../store/db/commit-number.ts";
import type { Store } from "../store/index.ts";
import { letOthersWrite, refuseBusy, runTransaction, withDataSteps } from "./data-directory.ts";
import type { Data, OpeningOptions } from "./data-directory.ts";

export type Operator = Pick<OperatorCaller, "call" | "open"> & {
  store: Store;
  /** Runs calls in one transaction: a refusal of one leaves nothing of the others behind. */
  atomically<T>(work: () => Promise<T>): Promise<T>;
  /** As `atomically`, for one of many transactions: a server beside the command can write between them. */
  oneOfMany<T>(work: () => Promise<T>): Promise<T>;
};

type OperatorOptions = {
  /** The name of the command, for the audit log. */
  command: string;
  /** The person responsible, for histories. */
  by?: string | null;
  /** Public URL of the server, for answers with addresses. */
  baseUrl?: string;
  /** How the data is opened; see withData. */
  opening?: OpeningOptions;
};

/** Calls operations on a data directory. Each call is a transaction of its own, unless `atomically` runs it. */
export async function withOperator<T>(
  directory: string,
  { command, by = null, baseUrl = "http://localhost", opening = {} }: OperatorOptions,
  work: (operator: Operator) => Promise<T>,
): Promise<T> {
  return withDataSteps(directory, opening, (data) => callOn(data, { directory, command, by, baseUrl }, work));
}

async function callOn<T>(
  data: Data,
  { directory, command, by, baseUrl }: { directory: string; command: string; by: string | null; baseUrl: string },
  work: (operator: Operator) => Promise<T>,
): Promise<T> {
  const { db, store } = data;
  const caller = createOperatorCaller({
    store,
    directory,
    baseUrl,
    command,
    by,
    write: (change) => (db.inTransaction ? db.transaction(change)() : runTransaction(data, change)),
    read: (reading) => (db.inTransaction ? reading() : db.transaction(reading).deferred()),
  });
  const atomically = <R>(steps: () => Promise<R>): Promise<R> => refuseBusy(() => runNumberedSteps(db, steps));
  try {
    return await work({
      call: caller.call,
      open: caller.open,
      store,
      atomically,
      oneOfMany: (steps) =>
        letOthersWrite((begun) =>
          atomically(() => {
            begun();
            return steps();
          }),
        ),
    });
  } finally {
    await caller.close();
  }
}

/** As withOperator, in one transaction with the lookups before the calls. */
export const changeAsOperator = <T>(
  directory: string,
  options: OperatorOptions,
  work: (operator: Operator) => Promise<T>,
): Promise<T> => withOperator(directory, options, (operator) => operator.atomically(() => work(operator)));
