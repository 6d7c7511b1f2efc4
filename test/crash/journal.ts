// What the writers tried and what was acknowledged to them. It lives in the test's own process, which nobody kills, so it
// is the truth that the server is compared with after its death.
export type FlowWrite = { kind: "flow"; flow: string };
export type TrailWrite = { kind: "trail"; flow: string; trail: string };
export type ArtifactWrite = { kind: "artifact"; flow: string; trail: string; fingerprint: string };
/** `token` is in the record's user_data and nowhere else; `digest` is the SHA-256 of the evidence, null without any. */
export type AttestationWrite = { kind: "attestation"; flow: string; trail: string; name: string; token: string; compliant: boolean; digest: string | null };
/** One version of a policy that only one writer writes; versions count from 1. */
export type PolicyWrite = { kind: "policy"; policy: string; version: number; yaml: string };

export type Write = FlowWrite | TrailWrite | ArtifactWrite | AttestationWrite | PolicyWrite;

export type Journal = {
  /** Everything that was sent, acknowledged or not. */
  tried: Write[];
  /** What was answered with 200 or 201. */
  acknowledged: Write[];
  /** Answers that no write should get, as text: a run with any of them proves nothing. */
  refused: string[];
};

export const emptyJournal = (): Journal => ({ tried: [], acknowledged: [], refused: [] });

/** Numbers from 0 to 1 that a seed decides (mulberry32), so that a failing run can be run again. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
