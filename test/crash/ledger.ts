// What the server acknowledged, and reading it back. An entry is recorded only after the complete response has arrived,
// because the ledger is the only evidence of it.
import { createHash } from "node:crypto";

export const ORG = "acme";
export const KEY = "key-of-the-crash-test-0123456789";
export const APPLY_FILE = `
users:
  - name: ops
    api_keys: [ { description: crash, key: "${KEY}" } ]
organizations:
  - name: ${ORG}
    members: [ { user: ops, role: admin } ]
`;

/** One acknowledged write, with everything that must be found of it later. */
export type Entry =
  | { kind: "flow"; flow: string }
  | { kind: "trail"; flow: string; trail: string; description: string }
  | { kind: "artifact"; flow: string; trail: string; fingerprint: string }
  | { kind: "attestation"; flow: string; trail: string; name: string; n: number; digest: string | null }
  | { kind: "policy"; policy: string; marker: string };

type Answer = { status: number; body: any; bytes: Buffer };

export type Api = { call(method: string, path: string, body?: FormData | object): Promise<Answer> };

/** A client of the running server. Rejects when the connection breaks, as when the server is killed. */
export function apiOf(url: string): Api {
  return {
    async call(method, path, body) {
      const form = body instanceof FormData;
      const headers: Record<string, string> = {
        Authorization: `Bearer ${KEY}`,
        ...(body && !form ? { "Content-Type": "application/json" } : {}),
      };
      const response = await fetch(`${url}/api/v2${path}`, {
        method,
        headers,
        ...(body ? { body: form ? body : JSON.stringify(body) } : {}),
      });
      const bytes = Buffer.from(await response.arrayBuffer());
      const isJson = response.headers.get("Content-Type")?.startsWith("application/json") ?? false;
      return { status: response.status, body: isJson ? JSON.parse(bytes.toString()) : null, bytes };
    },
  };
}

export const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

type AttestationRecord = {
  attestation_id: string;
  evidence_archive_fingerprint: string | null;
  user_data: { n: number };
};

/** All attestations since a time (epoch seconds), page by page, by the number in their user data. */
export async function attestationsSince(api: Api, from: number): Promise<Map<number, AttestationRecord>> {
  const records = new Map<number, AttestationRecord>();
  for (let after: string | null = ""; after !== null; ) {
    const { status, body, bytes }: Answer = await api.call(
      "GET",
      `/attestations/${ORG}?per_page=100&from_timestamp=${Math.floor(from)}${after && `&after=${after}`}`,
    );
    if (status !== 200) throw new Error(`the list of attestations fails with ${status}: ${bytes.toString()}`);
    for (const record of body.data as AttestationRecord[]) records.set(record.user_data.n, record);
    after = body._links.next?.after ?? null;
  }
  return records;
}

/** What is missing of an acknowledged write, null when it is complete. `records` is from attestationsSince. */
export async function missingOf(
  api: Api,
  entry: Entry,
  records: ReadonlyMap<number, AttestationRecord>,
): Promise<string | null> {
  switch (entry.kind) {
    case "flow": {
      const { status } = await api.call("GET", `/flows/${ORG}/${entry.flow}`);
      return status === 200 ? null : `flow ${entry.flow}: ${status}`;
    }
    case "trail": {
      const { status, body } = await api.call("GET", `/trails/${ORG}/${entry.flow}/${entry.trail}`);
      if (status !== 200) return `trail ${entry.trail}: ${status}`;
      // The description may be that of a later write, which has an entry of its own.
      return body.events.some((event: { type: string }) => event.type === "trail_reported")
        ? null
        : `trail ${entry.trail}: no history`;
    }
    case "artifact": {
      const { status, body } = await api.call(
        "GET",
        `/artifacts/${ORG}/${entry.flow}/fingerprint/${entry.fingerprint}?trail=${entry.trail}`,
      );
      return status === 200 && body.fingerprint === entry.fingerprint
        ? null
        : `artifact ${entry.fingerprint}: ${status}`;
    }
    case "attestation": {
      const record = records.get(entry.n);
      if (!record) return `attestation ${entry.name} with number ${entry.n}`;
      if (record.evidence_archive_fingerprint !== entry.digest)
        return `attestation ${entry.name}: evidence ${record.evidence_archive_fingerprint}`;
      if (entry.digest === null) return null;
      const file = await api.call(
        "GET",
        `/attestations/${ORG}/${entry.flow}/trail/${entry.trail}/attestation/${record.attestation_id}/evidence`,
      );
      return file.status === 200 && sha256(file.bytes) === entry.digest
        ? null
        : `evidence of ${entry.name}: ${file.status}, ${file.bytes.length} bytes`;
    }
    case "policy": {
      const { status, body } = await api.call("GET", `/policies/${ORG}/${entry.policy}`);
      const found =
        status === 200 &&
        body.versions.some((version: { policy_yaml: string }) => version.policy_yaml.includes(entry.marker));
      return found ? null : `policy ${entry.policy} ${entry.marker}: ${status}`;
    }
  }
}
