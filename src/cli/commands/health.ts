/** `assay health`: a readiness check for environments without curl or another HTTP client. */
import { request as requestHttp } from "node:http";
import type { RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { getCACertificates } from "node:tls";
import { defaultBaseUrl } from "../../config/resolve.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { parseDuration } from "../../domain/text/units.ts";
import type { Config } from "../../config/options.ts";
import type { Args } from "../args.ts";
import { loadConfig, readText } from "../command-config.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

/** Where to send the request: an http or https URL, or a Unix socket. */
type Target = { readonly url: URL; readonly socketPath: string | null };

const DEFAULT_TIMEOUT = "5s";

export const health: Command = {
  name: "health",
  summary: "Check whether a server is ready: exit code 0 if it is, 1 if not",
  usage: "[--url URL] [OPTIONS]",
  details: [
    "Without --url, checks the server with the same configuration on this machine, and accepts any certificate: " +
      "run it with the variables and the configuration file of the server. With --url the certificate must be valid " +
      "for the URL; --ca-file adds a CA bundle. Sends only GET /ready.",
  ],
  options: {
    url: {
      kind: "text",
      placeholder: "URL",
      description: "http://HOST:PORT, https://HOST:PORT/BASE-PATH or unix:/PATH",
    },
    timeout: {
      kind: "text",
      placeholder: "DURATION",
      description: `Time to wait for the response (default ${DEFAULT_TIMEOUT})`,
    },
  },
  takesConfig: true,
  check(args) {
    const { url, timeout } = healthArguments(args);
    const problems: string[] = [];
    const refuse = (name: string, text: string, accepts: string): unknown =>
      problems.push(`--${name}: ${JSON.stringify(truncate(text, 100))} is not accepted, give ${accepts}`);
    if (url !== null && parseTarget(url) === null)
      refuse("url", url, "http://HOST:PORT, https://HOST:PORT/BASE-PATH or unix:/PATH");
    if (parseTimeout(timeout) === null) refuse("timeout", timeout, "a duration such as 5s, from 1s to 10m");
    return problems;
  },
  async run(args, io) {
    const { config } = await loadConfig(args.flags, io);
    const { url: given, timeout } = healthArguments(args);
    const seconds = parseTimeout(timeout) ?? 0;
    const target = (given === null ? null : parseTarget(given)) ?? ownTarget(config);
    const authorities = config.caFile === null ? [] : [await readText(io, config.caFile)];
    const { status, body } = await requestReadiness(target, {
      timeout: seconds * 1000,
      // Without --url the target is the server's own listener on this machine, found by its configuration, and the
      // request carries no secret. Its certificate never names a loopback address, so it is not verified.
      rejectUnauthorized: given !== null,
      ca: [...getCACertificates("default"), ...authorities],
    });
    const place = target.socketPath === null ? target.url.href : `unix:${target.socketPath}`;
    const ready = status === 200 && body.trim() === "OK";
    if (!ready)
      throw new CommandError(`not ready: ${place} responds with ${status} ${JSON.stringify(body.slice(0, 200))}`);
    io.stdout(args.switches.has("json") ? `${JSON.stringify({ ready, url: place })}\n` : "ready\n");
    return EXIT.done;
  },
};

/** Returns the local address of a server with this configuration. Probes are at the root, whatever its base path. */
function ownTarget({ listen, tlsCert }: Config): Target {
  const url = new URL("/ready", defaultBaseUrl(listen, { tls: tlsCert !== null }));
  if ("path" in listen) return { url, socketPath: listen.path };
  if (listen.port === 0)
    throw new CommandError("the server listens on a random port (port 0): give its address with --url URL", EXIT.usage);
  // Not by name: localhost may resolve to an address of the other family.
  if (listen.host === "0.0.0.0") url.hostname = "127.0.0.1";
  if (listen.host === "::") url.hostname = "[::1]";
  return { url, socketPath: null };
}

const healthArguments = ({ texts }: Args): { url: string | null; timeout: string } => ({
  url: texts.get("url")?.[0] ?? null,
  timeout: texts.get("timeout")?.[0] ?? DEFAULT_TIMEOUT,
});

const parseTimeout = (text: string): number | null => parseDuration(text, 1, 600);

/** Null if the text is not a valid target. */
function parseTarget(text: string): Target | null {
  if (/^unix:\/./.test(text)) return { url: new URL("http://localhost/ready"), socketPath: text.slice("unix:".length) };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.search + url.hash !== "") return null;
  if (!/\/ready$/.test(url.pathname)) url.pathname = `${url.pathname.replace(/\/$/, "")}/ready`;
  return { url, socketPath: null };
}

/** The readiness response is shorter; a longer one comes from another program and is truncated. */
const MAX_ANSWER_CHARS = 4096;

/** Returns the status and the beginning of the body. @throws CommandError that explains why there is no response */
function requestReadiness(
  { url, socketPath }: Target,
  options: { timeout: number; rejectUnauthorized: boolean; ca: string[] },
): Promise<{ status: number; body: string }> {
  const place = socketPath === null ? url.href : `unix:${socketPath}`;
  const { timeout, ...trust } = options;
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(new CommandError(`not ready: ${place}: ${why}`));
    // One deadline for the whole exchange, so that a server that trickles bytes counts as not ready.
    const signal = AbortSignal.timeout(timeout);
    const settings: RequestOptions = { signal, agent: false, ...(socketPath !== null && { socketPath }) };
    const request =
      url.protocol === "https:" ? requestHttps(url, { ...settings, ...trust }) : requestHttp(url, settings);
    const failed = (error: Error & { code?: string }): void =>
      fail(signal.aborted ? `no response within ${timeout / 1000} s` : describeRequestError(error));
    request.on("error", failed);
    request.on("response", (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => (body = (body + text).slice(0, MAX_ANSWER_CHARS)));
      response.on("error", failed);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    request.end();
  });
}

/** Returns Node's message, with its advice about Node options replaced by ours. */
const describeRequestError = (error: Error & { code?: string }): string =>
  error.message.replace(/; if the root CA is installed locally.*$/, "; --ca-file FILE adds its authority") ||
  (error.code ?? "no connection");
