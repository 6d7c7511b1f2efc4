/** How an application declares operations (operation.ts): what the functions of a read and of a change get. */
import type { TObject } from "typebox";
import type { Body, Method, Operation, ResponseShape } from "./operation.ts";

/** The operation with the shapes of its own answers, for callers in this process. */
type Answering<O, R> = Omit<O, "responses"> & { responses: R };

/** How a read says that it is one. */
type ReadMethod = { method: "GET" } | { method: "POST"; onlyReads: true };
type WriteMethod = { method: Exclude<Method, "GET">; onlyReads?: never };

/**
 * Creates the `operation` function of an application: the identity, typed so that each literal infers the shapes of its
 * own handler. api/context.ts binds it to a Context, and to the Reading that functions of reads get, which cannot
 * write.
 */
export const operationFor =
  <Context extends Reading, Reading = Context>() =>
  <
    P extends TObject,
    Q extends TObject,
    B extends Body,
    const R extends Record<number, ResponseShape>,
    Prepared = undefined,
  >(
    declaration:
      | (Answering<Operation<Reading, P, Q, B, Prepared>, R> & ReadMethod)
      | (Answering<Operation<Context, P, Q, B, Prepared>, R> & WriteMethod),
  ): Answering<Operation<Context, P, Q, B, Prepared>, R> =>
    declaration;

/**
 * As operationFor, for reads with `isLarge`; without one of their own, their answers are made here first.
 * @template Handling what a reader thread has of a context
 */
export const largeReadFor =
  <Reading, Handling>() =>
  <
    P extends TObject,
    Q extends TObject,
    B extends Body,
    const R extends Record<number, ResponseShape>,
    Prepared = undefined,
  >(
    declaration: Answering<Operation<Reading, P, Q, B, Prepared, Handling>, R> & ReadMethod,
  ): Answering<Operation<Reading, P, Q, B, Prepared, Handling>, R> => ({ isLarge: () => false, ...declaration });
