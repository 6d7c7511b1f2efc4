// Readers beside the writers of the crash test: the requests of people and dashboards, until the server is gone.
import { ORG, sha256 } from "../crash/ledger.ts";
import type { Api, Entry } from "../crash/ledger.ts";
import { randomOf, refusal } from "../crash/load.ts";
import type { Lane } from "../crash/load.ts";

/** Valid statuses while others write: a record may not exist yet, or have no verdict. */
const EXPECTED_STATUSES = new Set([200, 404]);

/** Lanes of random reads. They acknowledge nothing; an unexpected response is a refusal. */
export function readers(api: Api, lanes: number, seed: number): Lane<Entry>[] {
  return Array.from({ length: lanes }, (_value, index) => {
    const random = randomOf(seed * 77_000 + index);
    const pick = (count: number): number => Math.floor(random() * count);
    return async () => {
      const flow = `flow-${pick(3)}`;
      const trail = `trail-${pick(12)}`;
      const fingerprint = sha256(Buffer.from(`${flow}/${trail}/${pick(3)}`));
      const paths = [
        `/trails/${ORG}?page=1&per_page=20`,
        `/trails/${ORG}/${flow}/${trail}`,
        `/attestations/${ORG}?per_page=50`,
        `/artifacts/${ORG}/${flow}/fingerprint/${fingerprint}`,
        `/asserts/${ORG}/fingerprint/${fingerprint}`,
        `/environments/${ORG}`,
        `/snapshots/${ORG}/small-0/-1`,
        `/search/${ORG}/sha/${fingerprint.slice(0, 12)}`,
        // A long response from one read transaction.
        `/trails/${ORG}/${flow}/${trail}/audit_package`,
        `/policies/${ORG}`,
      ];
      const path = paths[pick(paths.length)] as string;
      const answer = await api.call("GET", path);
      if (!EXPECTED_STATUSES.has(answer.status)) throw refusal(`GET ${path}`, answer);
      return null;
    };
  });
}
