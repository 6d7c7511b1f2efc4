/** The attacked server's data, and a client. */
import { request } from "node:http";
import type { Attack, AttackRequest, World } from "./attack.ts";
import { formRequest, jsonRequest } from "./attack.ts";

const MEMBER_KEY = "attacks-member-000000000000000000000000000";
const READER_KEY = "attacks-reader-000000000000000000000000000";

/** For `assay serve --bootstrap`. */
export const APPLY_FILE = `
users:
  - name: member
    api_keys: [ { description: attacks, key: "${MEMBER_KEY}" } ]
  - name: reader
    api_keys: [ { description: attacks, key: "${READER_KEY}" } ]
organizations:
  - name: acme
    members:
      - { user: member, role: admin }
      - { user: reader, role: reader }
`;

export type AttackAnswer = { status: number; text: string; retryAfter: string | null };

/** Sends one request on a connection of its own; `null`: the connection broke without a response. */
export function send(url: string, { method, path, key, headers, body }: AttackRequest): Promise<AttackAnswer | null> {
  return new Promise((resolve) => {
    const sent = request(`${url}/api/v2${path}`, {
      method,
      agent: false,
      headers: { ...headers, Authorization: `Bearer ${key}`, "Content-Length": body.length },
    });
    sent.on("response", (response) => {
      const pieces: Buffer[] = [];
      response.on("data", (piece: Buffer) => pieces.push(piece));
      response.on("close", () =>
        resolve({
          status: response.statusCode ?? 0,
          text: Buffer.concat(pieces).toString(),
          retryAfter: response.headers["retry-after"] ?? null,
        }),
      );
    });
    // After a response that came before the whole body, the connection may break while the rest is sent.
    sent.on("error", () => resolve(null));
    sent.end(body);
  });
}

/** Creates the data that the attacks need. */
export async function prepareWorld(url: string): Promise<World> {
  const world: World = {
    org: "acme",
    memberKey: MEMBER_KEY,
    readerOrg: "reader",
    readerKey: READER_KEY,
    flow: "payments",
    trail: "release",
    customType: "anything",
    environment: "production",
    readerFlow: "own",
  };
  const flow = (org: string, name: string, key: string): AttackRequest =>
    formRequest("PUT", `/flows/${org}/template_file`, key, { json: JSON.stringify({ name, description: "" }) });
  const environment = (org: string, name: string, key: string): AttackRequest =>
    jsonRequest("PUT", `/environments/${org}`, key, JSON.stringify({ name, type: "K8S", description: "" }));
  const requests = [
    flow(world.org, world.flow, MEMBER_KEY),
    flow(world.readerOrg, world.readerFlow, READER_KEY),
    environment(world.org, world.environment, MEMBER_KEY),
    environment(world.readerOrg, "own", READER_KEY),
    formRequest("POST", `/custom-attestation-types/${world.org}`, MEMBER_KEY, {
      json: JSON.stringify({ name: world.customType, description: "" }),
    }),
    formRequest("PUT", `/trails/${world.org}/${world.flow}`, MEMBER_KEY, {
      json: JSON.stringify({ name: world.trail }),
    }),
  ];
  for (const one of requests) {
    const answer = await send(url, one);
    if (answer === null || answer.status > 201)
      throw new Error(`${one.method} ${one.path}: ${answer?.status} ${answer?.text}`);
  }
  return world;
}

/** The problem of a response to an attack; null when it is expected. `crowded`: 429 is valid as well. */
export function problemOf(
  { name, expect }: Attack,
  answer: AttackAnswer | null,
  { crowded = false } = {},
): string | null {
  if (answer === null) return `${name}: no answer`;
  if (crowded && answer.status === 429 && answer.retryAfter !== null) return null;
  const fits = expect.some(
    ({ status, body }) =>
      status === answer.status && (body === undefined || JSON.stringify(body) === JSON.stringify(parsed(answer.text))),
  );
  return fits ? null : `${name}: ${answer.status} ${answer.text.slice(0, 300)}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
