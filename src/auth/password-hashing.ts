/**
 * Hashes passwords with scrypt. By design a hash takes 128 MB and a quarter of a second, so only one is computed at a
 * time, off the main thread, and the queue is bounded: a flood of logins can take neither the server's memory nor more
 * than one of its threads.
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { normalizePassword } from "../domain/login/password.ts";
import { tooManyRequests, unavailable } from "../errors.ts";
import type { PasswordHash } from "../store/accounts/passwords.ts";

type Parameters = Pick<PasswordHash, "cost" | "block_size" | "parallelism">;

/** The minimum that OWASP recommends for scrypt (Password Storage Cheat Sheet, 2025). */
const SCRYPT_PARAMETERS: Parameters = { cost: 2 ** 17, block_size: 8, parallelism: 1 };

/** Queued logins: the last one takes eight seconds, which is about how long people wait for a page. */
const MAX_QUEUED = 32;

/** Members that wait to be created: the last one takes a minute, which is about how long clients of the API wait. */
const MAX_QUEUED_MEMBERS = 240;
const RETRY_AFTER_S = 5;

export type PasswordHasher = ReturnType<typeof createPasswordHasher>;

/** @param parameters of new hashes; existing ones are verified with their own */
export function createPasswordHasher(parameters: Parameters = SCRYPT_PARAMETERS) {
  const inTurn = createQueue(MAX_QUEUED, () => unavailable("Too many logins at the same time", RETRY_AFTER_S));
  const memberInTurn = createQueue(MAX_QUEUED_MEMBERS, () =>
    tooManyRequests("Too many members are being created", RETRY_AFTER_S),
  );

  /** Computes a hash when its turn comes. @throws AppError 503 when the queue is full */
  const derive = (text: string, salt: Buffer, parameters: Parameters): Promise<Buffer> =>
    inTurn(() => deriveKey(text, salt, parameters));

  /** Hashes a password that `passwordProblem` accepted. @throws AppError 503 */
  async function hash(password: string): Promise<PasswordHash> {
    const salt = randomBytes(16);
    return { ...parameters, salt, hash: await derive(normalizePassword(password) ?? "", salt, parameters) };
  }

  return {
    hash,
    /**
     * Hashes the generated password of a member whom an admin creates. Members wait for each other before they wait
     * with the logins, so that a script that creates many does not keep people from signing in.
     * @throws AppError 429 when too many members wait, 503 when too many logins do
     */
    hashOfMember: (password: string): Promise<PasswordHash> => memberInTurn(() => hash(password)),
    /**
     * Whether a password matches a hash. Does the same work without a hash, and for a text that is not a valid
     * password, so that timing does not reveal which users exist.
     * @throws AppError 503
     */
    async verify(password: string, stored: PasswordHash | null): Promise<boolean> {
      const form = normalizePassword(password);
      const key = await derive(form ?? "", stored?.salt ?? NO_SALT, stored ?? parameters);
      return stored !== null && form !== null && timingSafeEqual(key, stored.hash);
    },
    /** Whether a hash was made with the parameters of new hashes. */
    isCurrent: (stored: Parameters): boolean =>
      stored.cost === parameters.cost &&
      stored.block_size === parameters.block_size &&
      stored.parallelism === parameters.parallelism,
  };
}

const NO_SALT = Buffer.alloc(16);

function deriveKey(text: string, salt: Buffer, { cost, block_size, parallelism }: Parameters): Promise<Buffer> {
  // OpenSSL needs a little more than the 128 * N * r of the algorithm.
  const options = { N: cost, r: block_size, p: parallelism, maxmem: 128 * block_size * (cost + parallelism + 2) };
  return new Promise((resolve, reject) => {
    scrypt(text, salt, 32, options, (error, key) => (error ? reject(error) : resolve(key)));
  });
}

/** Runs tasks one after the other. A task beyond `maxWaiting` waiting ones is refused with the error of `refusal`. */
function createQueue(maxWaiting: number, refusal: () => Error) {
  let last: Promise<unknown> = Promise.resolve();
  let tasks = 0;
  return async <T>(task: () => Promise<T>): Promise<T> => {
    if (tasks > maxWaiting) throw refusal();
    tasks += 1;
    const turn = last.then(task);
    last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      tasks -= 1;
    }
  };
}
