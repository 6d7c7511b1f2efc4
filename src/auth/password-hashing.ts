/**
 * Hashing passwords with scrypt. One hash takes 128 MB and a quarter of a second by design, so only one is made at a
 * time, off the main thread, and only so many wait for their turn: a crowd of logins can neither take the memory of the
 * server nor more than one of its threads.
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { passwordForm } from "../domain/login/password.ts";
import { unavailable } from "../errors.ts";
import type { PasswordHash } from "../store/accounts/passwords.ts";

type Parameters = Pick<PasswordHash, "cost" | "block_size" | "parallelism">;

/** What OWASP asks for at least of scrypt (Password Storage Cheat Sheet, 2025). */
export const SCRYPT: Parameters = { cost: 2 ** 17, block_size: 8, parallelism: 1 };

/** Logins that wait beside the one that is checked: eight seconds, about what somebody waits for a page. */
const MOST_WAITING = 32;

export type Passwords = ReturnType<typeof createPasswords>;

/** `parameters` of new hashes; old ones are checked with their own. */
export function createPasswords(parameters: Parameters = SCRYPT) {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;

  /** In its turn. @throws AppError 503 when too many wait. */
  async function derive(text: string, salt: Buffer, { cost, block_size, parallelism }: Parameters): Promise<Buffer> {
    if (waiting > MOST_WAITING) throw unavailable("Too many logins at the same time", 5);
    waiting += 1;
    const turn = last.then(
      () =>
        new Promise<Buffer>((resolve, reject) => {
          // OpenSSL counts a little more than the 128 * N * r of the algorithm.
          const options = {
            N: cost,
            r: block_size,
            p: parallelism,
            maxmem: 128 * block_size * (cost + parallelism + 2),
          };
          scrypt(text, salt, 32, options, (error, key) => (error ? reject(error) : resolve(key)));
        }),
    );
    last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      waiting -= 1;
    }
  }

  return {
    /** The hash of a password that `passwordProblem` had nothing against. @throws AppError 503. */
    async hash(password: string): Promise<PasswordHash> {
      const salt = randomBytes(16);
      return { ...parameters, salt, hash: await derive(passwordForm(password) ?? "", salt, parameters) };
    },
    /**
     * Whether it is the password of that hash. Takes the same work where there is no hash, and for a text that is no
     * password, so that the time does not tell who is known. @throws AppError 503.
     */
    async verify(password: string, stored: PasswordHash | null): Promise<boolean> {
      const form = passwordForm(password);
      const key = await derive(form ?? "", stored?.salt ?? NO_SALT, stored ?? parameters);
      return stored !== null && form !== null && timingSafeEqual(key, stored.hash);
    },
    /** Whether a hash was made as they are made today. */
    isCurrent: (stored: Parameters): boolean =>
      stored.cost === parameters.cost &&
      stored.block_size === parameters.block_size &&
      stored.parallelism === parameters.parallelism,
  };
}

const NO_SALT = Buffer.alloc(16);
