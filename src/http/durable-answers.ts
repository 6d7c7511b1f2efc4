/**
 * Nothing is shown that a power cut could take back: an answer waits until everything that was committed when it was
 * made is durable. Without writes nothing waits. A write waits for its own commit already (store/db/group-commit.ts).
 */
import type Koa from "koa";

/** Resolves once everything that is committed now is durable; null if it is. */
export type Durable = () => Promise<void> | null;

/** Runs `work`, which makes an answer or a refusal, and holds it back. */
export async function holdUntilDurable(
  ctx: Koa.Context,
  durable: Durable,
  work: () => Promise<unknown>,
): Promise<void> {
  try {
    await work();
  } finally {
    if (ctx.state["isDurable"] !== true) await durable();
  }
}

/** For what is durable already, the answer of a write that resolved or a kept one: it waits for no later commit. */
export const markDurable = (ctx: Koa.Context): void => void (ctx.state["isDurable"] = true);
