/** The table of clients, from what their tests printed. */

export type ClientRow = { client: string; version: string; ran: string };

export type ClientOutputs = {
  /** test/binary/client.ts, whose user agents name the releases that its requests are those of. */
  dialects: string;
  /** Output of the tests that send these requests. */
  requests: string;
  /** Output of the tests that run the examples of the README. */
  examples: string;
  /** Version of the CLI on this machine; null if there is none. */
  cli: string | null;
  /** Output of `make openapi-check`. */
  generators: string;
};

/**
 * One row for each client whose test ran. Throws an Error where the output of a test has no count, so that a table
 * never says more than what ran.
 */
export function clientRows({ dialects, requests, examples, cli, generators }: ClientOutputs): ClientRow[] {
  const tests = /^(\d+) passed, 0 failed$/m.exec(requests)?.[1];
  if (tests === undefined) throw new Error("the tests of the requests of clients say not how many passed");
  const agent = (pattern: RegExp): string => {
    const version = pattern.exec(dialects)?.[1];
    if (version === undefined) throw new Error(`test/binary/client.ts has no user agent ${pattern}`);
    return version;
  };
  const recorded = `its requests, byte for byte (${tests} tests)`;
  const ranCli = cli !== null && !examples.includes("skipped: the example of the Kosli CLI");
  return [
    { client: "Kosli CLI", version: agent(/"Kosli\/v([\d.]+)"/), ran: recorded },
    ...(ranCli ? [{ client: "Kosli CLI", version: cli, ran: "the example above" }] : []),
    { client: "Kosli Terraform provider", version: agent(/terraform-provider-kosli\/([\d.]+)/), ran: recorded },
    ...generated(generators),
  ];
}

/** Clients that were generated from the OpenAPI document, compiled, and have sent their calls. */
function generated(output: string): ClientRow[] {
  const checks = new Map(
    [...output.matchAll(/^(passed|FAILED|skipped) +([^:\n]+(?:: [a-z]+)?)(?:: (.*))?$/gm)].map(
      ([, outcome, check = "", detail = ""]) => [check, { outcome, detail }] as const,
    ),
  );
  return [...checks].flatMap(([check, { outcome, detail }]) => {
    const client = /^(.*): calls$/.exec(check)?.[1];
    if (client === undefined || outcome !== "passed") return [];
    const version = /\d+\.\d+\.\d+/.exec(checks.get(`${client}: generate`)?.detail ?? "")?.[0];
    if (version === undefined) throw new Error(`make openapi-check says not which version of ${client} generated`);
    return [{ client, version, ran: `generated, compiled, ${detail}` }];
  });
}

/** @param day of the run, as 2026-01-31 */
export function clientTable(rows: readonly ClientRow[], day: string): string {
  const lines = rows.map(({ client, version, ran }) => `| ${client} | ${version} | ${ran} | ${day} |`);
  return ["| client | version | what ran | on |", "|---|---|---|---|", ...lines].join("\n");
}
