/** What tests of Rego policies and evaluations start from. */
import type { Answer, TestServer } from "../../given.ts";
import { ENDLESS_RULE } from "../../rego/given.ts";

export type At = { org: string; key: string };

export type Json = Record<string, any>;

/** Allows what the trail's own verdict allows. */
export const COMPLIANT = `package policy

default allow := false

allow if input.trail.compliance_status.is_compliant

violations contains "the trail is not compliant" if not allow
`;
/** A policy with a constant verdict. */
export const constant = (allow: boolean): string => `package policy\n\nallow := ${allow}\n`;

export const regoClient = (server: TestServer) => ({
  publish: (at: At, identifier: string, body: unknown): Promise<Answer> =>
    server.call("PUT", `/rego-policies/${at.org}/${identifier}`, { key: at.key, body }),
  policies: (at: At, path = ""): Promise<Answer> =>
    server.call("GET", `/rego-policies/${at.org}${path}`, { key: at.key }),
  evaluate: (at: At, body: unknown): Promise<Answer> =>
    server.call("POST", `/evaluations/${at.org}`, { key: at.key, body }),
  evaluations: (at: At, path = ""): Promise<Answer> =>
    server.call("GET", `/evaluations/${at.org}${path}`, { key: at.key }),
  /** The evaluation once it has ended. */
  async ended(at: At, id: string): Promise<Json> {
    for (;;) {
      const { body } = await server.call("GET", `/evaluations/${at.org}/${id}`, { key: at.key });
      if (body.status !== "pending") return body;
    }
  },
  /** An organization with a flow and a trail in it. */
  async world(): Promise<At & { flow: string; trail: string; trails: { flow: string; trail: string }[] }> {
    const at = server.given.org();
    const flow = await server.given.flow(at);
    const trail = await server.given.trail(at, { flow });
    return { ...at, flow, trail, trails: [{ flow, trail }] };
  },
});

/** Ends only at a limit, or with the server. */
export const ENDLESS = `package policy

default allow := false

${ENDLESS_RULE}
`;

/** Takes about half a second in the engine. */
export const SLOW = `package slow

default allow := false

allow if count([1 | some i in numbers.range(1, 1000); some j in numbers.range(1, 400); i * j == 7]) == 2
`;
