/**
 * What happens, in the words of the page about actions, and the messages that it sends (`test/README.md`). The lines of
 * a page happen one after the other, in one organization with the environment `production`, whose policy requires
 * provenance, and the flow `payments`.
 */
import { createHash } from "node:crypto";
import { actionsIn } from "../api/notifications/receivers.ts";
import type { Sent } from "../api/notifications/receivers.ts";
import type { TestServer } from "../given.ts";
import { success } from "./facts.ts";
import type { At } from "./facts.ts";

const DAY_S = 86_400;
const [ENVIRONMENT, FLOW, TRAIL] = ["production", "payments", "release-1"];

export const fingerprintOf = (name: string): string => createHash("sha256").update(name).digest("hex");

export type Events = {
  /** Creates or replaces an action. */
  put(json: string): Promise<{ status: number; text: string; body: any }>;
  /** Makes something happen; returns the messages that it sends. @throws Error for unknown words */
  happens(what: string): Promise<Sent[]>;
};

export async function openEvents(server: TestServer, at: At): Promise<Events> {
  const { given } = server;
  const { key } = at;
  const { sent } = actionsIn(server);
  const policy = await given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  await given.environment(at, { name: ENVIRONMENT, policies: [policy] });
  await given.flow(at, { name: FLOW });
  /** What runs: the number of pods by name. */
  const running = new Map<string, number>();
  let known = 0;

  const artifact = (name: string) =>
    given.artifact(at, { flow: FLOW, trail: TRAIL, fingerprint: fingerprintOf(name), filename: name, commit: COMMIT });
  const report = () => {
    const artifacts = [...running].flatMap(([name, pods]) =>
      Array.from({ length: pods }, (_, index) => ({
        podName: `${name}-${index}`,
        namespace: "shop",
        digests: { [name]: fingerprintOf(name) },
        creationTimestamp: 1_700_000_000,
      })),
    );
    return success(
      server.call("PUT", `/environments/${at.org}/${ENVIRONMENT}/report/K8S`, { key, body: { artifacts } }),
    );
  };
  const runs = (name: string, pods: number) => {
    running.set(name, pods);
    if (pods === 0) running.delete(name);
    return report();
  };
  const HAPPENINGS: readonly (readonly [RegExp, (name: string, number: number) => Promise<unknown>])[] = [
    [/^trail (\S+) begins$/, (name) => given.trail(at, { flow: FLOW, name })],
    [/^artifact (\S+) is reported$/, artifact],
    [/^attestation (\S+) is reported$/, (name) => given.attestation(at, { flow: FLOW, trail: TRAIL, name })],
    [
      /^attestation tests of (\S+) is reported$/,
      (name) => given.attestation(at, { flow: FLOW, trail: TRAIL, name: "tests", fingerprint: fingerprintOf(name) }),
    ],
    [/^(\S+) starts$/, (name) => runs(name, 1)],
    [/^(\S+) has (\d+) pods$/, runs],
    [/^(\S+) stops$/, (name) => runs(name, 0)],
    [/^the environment is reported again$/, report],
    [
      /^(\S+) is allowed for (\d+) days$/,
      (name, days) => {
        const body = {
          artifact_fingerprint: fingerprintOf(name),
          artifact_name: name,
          description: "until the fix",
          expires_at: Math.floor(server.clock.at) + days * DAY_S,
        };
        return success(server.call("PUT", `/allowlists/${at.org}/${ENVIRONMENT}`, { key, body }));
      },
    ],
    [
      /^()(\d+) days? pass(?:es)?$/,
      async (_, days) => {
        server.clock.at += days * DAY_S;
        server.runner.wake();
      },
    ],
  ];

  return {
    put: (json) =>
      server.call("PUT", `/actions/${at.org}/${"flows" in JSON.parse(json) ? "flows" : "environments"}`, {
        key,
        body: JSON.parse(json) as unknown,
      }),
    async happens(what) {
      for (const [pattern, happen] of HAPPENINGS) {
        const match = pattern.exec(what);
        if (!match) continue;
        await happen(match[1] ?? "", Number(match[2]));
        const all = await sent(at);
        const fresh = all.slice(known);
        known = all.length;
        return fresh;
      }
      throw new Error(`'${what}' is not something that happens`);
    },
  };
}

/** The commit of every artifact. */
const COMMIT = "4f1c".repeat(10);
