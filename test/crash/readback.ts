// Reads everything back through the API, as a client would: what was acknowledged must be there, and what was not
// acknowledged may be there, but then whole.
import { createHash } from "node:crypto";
import type { AttestationWrite, Journal, PolicyWrite, Write } from "./journal.ts";
import { KEY, ORG } from "./writers.ts";

/** Requests at a time. */
const READERS = 8;

type Item = {
  attestation_name: string;
  is_compliant: boolean;
  trail_name: string;
  user_data: { token: string };
  evidence_archive_fingerprint: string | null;
  _links: { evidence?: { href: string } };
};

/** What is wrong, one line for each acknowledged write that is lost and for each other contradiction; empty when all is well. */
export async function readBack(url: string, journal: Journal): Promise<string[]> {
  const problems: string[] = [];
  const get = async (path: string) => {
    const response = await fetch(url + path, { headers: { Authorization: `Bearer ${KEY}` } });
    return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()) };
  };
  const lost = (what: string, why: string): void => void problems.push(`LOST ${what}: ${why}`);

  async function checkAttestations(flow: string, writes: readonly AttestationWrite[], acknowledged: ReadonlySet<Write>): Promise<void> {
    const items = new Map<string, Item>();
    for (let path: string | null = `/api/v2/attestations/${ORG}?flow=${flow}&per_page=100`; path !== null; ) {
      const { status, bytes } = await get(path);
      if (status !== 200) return lost(`attestations of ${flow}`, `${status} ${bytes}`);
      const page = JSON.parse(bytes.toString()) as { data: Item[]; _links: { next: { href: string } | null } };
      for (const item of page.data) {
        if (items.has(item.user_data.token)) problems.push(`attestation ${item.user_data.token} is there twice`);
        items.set(item.user_data.token, item);
      }
      path = page._links.next && pathOf(page._links.next.href);
    }
    for (const write of writes) {
      const item = items.get(write.token);
      items.delete(write.token);
      if (item === undefined) {
        if (acknowledged.has(write)) lost(`attestation ${write.token}`, "not listed");
        continue;
      }
      const report = acknowledged.has(write) ? lost : (what: string, why: string) => void problems.push(`HALF ${what}: ${why}`);
      if (item.attestation_name !== write.name || item.is_compliant !== write.compliant || item.trail_name !== write.trail || item.evidence_archive_fingerprint !== write.digest)
        report(`attestation ${write.token}`, `it reads ${JSON.stringify(item)}`);
      if (write.digest === null) continue;
      const { status, bytes } = await get(pathOf(item._links.evidence?.href ?? `${url}/none`));
      if (status !== 200 || createHash("sha256").update(bytes).digest("hex") !== write.digest)
        report(`evidence of ${write.token}`, `${status}, ${bytes.length} bytes`);
    }
    for (const token of items.keys()) problems.push(`attestation ${token} in ${flow} was never sent`);
  }

  async function checkPolicy(write: PolicyWrite): Promise<void> {
    const { status, bytes } = await get(`/api/v2/policies/${ORG}/${write.policy}`);
    const found = status === 200 ? (JSON.parse(bytes.toString()) as { versions: { version: number; policy_yaml: string }[] }) : null;
    const version = found?.versions.find((one) => one.version === write.version);
    if (version?.policy_yaml !== write.yaml) lost(`version ${write.version} of ${write.policy}`, `${status} ${bytes}`);
  }

  async function checkExists(what: string, path: string): Promise<void> {
    const { status, bytes } = await get(path);
    if (status !== 200) lost(what, `${status} ${bytes}`);
  }

  const acknowledged = new Set(journal.acknowledged);
  const work: (() => Promise<void>)[] = [];
  const byFlow = new Map<string, AttestationWrite[]>();
  for (const write of journal.tried) if (write.kind === "attestation") byFlow.set(write.flow, [...(byFlow.get(write.flow) ?? []), write]);
  for (const [flow, writes] of byFlow) work.push(() => checkAttestations(flow, writes, acknowledged));
  for (const write of journal.acknowledged) {
    if (write.kind === "flow") work.push(() => checkExists(`flow ${write.flow}`, `/api/v2/flows/${ORG}/${write.flow}`));
    else if (write.kind === "trail") work.push(() => checkExists(`trail ${write.flow}/${write.trail}`, `/api/v2/trails/${ORG}/${write.flow}/${write.trail}`));
    else if (write.kind === "artifact")
      work.push(() => checkExists(`artifact ${write.fingerprint}`, `/api/v2/artifacts/${ORG}/${write.flow}/fingerprint/${write.fingerprint}?trail=${write.trail}`));
    else if (write.kind === "policy") work.push(() => checkPolicy(write));
  }
  const reader = async (): Promise<void> => {
    for (let next = work.pop(); next; next = work.pop()) await next();
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  return problems;
}

/** Path and query of a link: it names the address of the process that made it. */
function pathOf(href: string): string {
  const { pathname, search } = new URL(href);
  return pathname + search;
}
