/**
 * `assay health`: asks a server whether it can do its work, for health checks where there is nothing else to ask with.
 */
import { request as requestHttp } from "node:http";
import type { RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { getCACertificates } from "node:tls";
import { defaultBaseUrl } from "../../config/resolve.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { parseDuration } from "../../domain/text/units.ts";
import type { Config } from "../../config/options.ts";
import type { Args } from "../args.ts";
import { configure, readText } from "../command-config.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

/** What is asked: an http or https URL, or the path of a Unix socket. */
type Target = { readonly url: URL; readonly socketPath: string | null };

const DEFAULT_TIMEOUT = "5s";

export const health: Command = {
  name: "health",
  summary: "Ask a server whether it is ready: exit code 0 when it is, 1 when not",
  usage: "[--url URL] [OPTIONS]",
  details: [
    "Without --url it asks the server that has this configuration, on this machine, whatever name its certificate is for: run it",
    "with the variables and the configuration file of the server. With --url the certificate must be good for the URL; ca-file adds",
    "authorities. Nothing is sent but GET /ready.",
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
      description: `How long to wait for the answer (default ${DEFAULT_TIMEOUT})`,
    },
  },
  takesConfig: true,
  check(args) {
    const { url, timeout } = wishOf(args);
    const problems: string[] = [];
    const refuse = (name: string, text: string, accepts: string): unknown =>
      problems.push(`--${name}: ${JSON.stringify(truncate(text, 100))} is not accepted, give ${accepts}`);
    if (url !== null && parseTarget(url) === null)
      refuse("url", url, "http://HOST:PORT, https://HOST:PORT/BASE-PATH or unix:/PATH");
    if (timeoutOf(timeout) === null) refuse("timeout", timeout, "a duration such as 5s, from 1s to 10m");
    return problems;
  },
  async run(args, io) {
    const { config } = await configure(args.flags, io);
    const { url: given, timeout } = wishOf(args);
    const seconds = timeoutOf(timeout) ?? 0;
    const target = (given === null ? null : parseTarget(given)) ?? ownTarget(config);
    const authorities = config.caFile === null ? [] : [await readText(io, config.caFile)];
    const { status, body } = await ask(target, {
      timeout: seconds * 1000,
      // Its own listener on this machine, found by its own configuration, that is told nothing: whom the certificate
      // names is no question then, and it never names a loopback address.
      rejectUnauthorized: given !== null,
      ca: [...getCACertificates("default"), ...authorities],
    });
    const place = target.socketPath === null ? target.url.href : `unix:${target.socketPath}`;
    const ready = status === 200 && body.trim() === "OK";
    if (!ready) throw commandFailure(`not ready: ${place} answers ${status} ${JSON.stringify(body.slice(0, 200))}`);
    io.stdout(args.switches.has("json") ? `${JSON.stringify({ ready, url: place })}\n` : "ready\n");
    return EXIT.done;
  },
};

/**
 * Where a server with this configuration is reached from its own machine. Probes are served at the root, whatever its
 * base path is.
 */
function ownTarget({ listen, tlsCert }: Config): Target {
  const url = new URL("/ready", defaultBaseUrl(listen, tlsCert !== null));
  if ("path" in listen) return { url, socketPath: listen.path };
  if (listen.port === 0)
    throw commandFailure("the server takes any free port, so this cannot know which: give --url URL", EXIT.usage);
  // Not by name: that may stand for another family of addresses than the server listens on.
  if (listen.host === "0.0.0.0") url.hostname = "127.0.0.1";
  if (listen.host === "::") url.hostname = "[::1]";
  return { url, socketPath: null };
}

const wishOf = ({ texts }: Args): { url: string | null; timeout: string } => ({
  url: texts.get("url")?.[0] ?? null,
  timeout: texts.get("timeout")?.[0] ?? DEFAULT_TIMEOUT,
});

const timeoutOf = (text: string): number | null => parseDuration(text, 1, 600);

/** Null where the text names nothing that can be asked. */
function parseTarget(text: string): Target | null {
  if (/^unix:\/./.test(text)) return { url: new URL("http://localhost/ready"), socketPath: text.slice("unix:".length) };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.search + url.hash !== "") return null;
  if (!/\/ready$/.test(url.pathname)) url.pathname = `${url.pathname.replace(/\/$/, "")}/ready`;
  return { url, socketPath: null };
}

/** Longer answers are none of a server of ours. */
const ANSWER_LIMIT = 4096;

/** The status and the beginning of the body. @throws a command failure that says why there is no answer. */
function ask(
  { url, socketPath }: Target,
  options: { timeout: number; rejectUnauthorized: boolean; ca: string[] },
): Promise<{ status: number; body: string }> {
  const place = socketPath === null ? url.href : `unix:${socketPath}`;
  const { timeout, ...trust } = options;
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(commandFailure(`not ready: ${place}: ${why}`));
    // One deadline for all of it: a server that answers byte by byte is not ready either.
    const signal = AbortSignal.timeout(timeout);
    const settings: RequestOptions = { signal, agent: false, ...(socketPath !== null && { socketPath }) };
    const request =
      url.protocol === "https:" ? requestHttps(url, { ...settings, ...trust }) : requestHttp(url, settings);
    const failed = (error: Error & { code?: string }): void =>
      fail(signal.aborted ? `no answer within ${timeout / 1000} s` : reasonOf(error));
    request.on("error", failed);
    request.on("response", (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => (body = (body + text).slice(0, ANSWER_LIMIT)));
      response.on("error", failed);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    request.end();
  });
}

/** What Node says, but for its advice to people who start Node themselves. */
const reasonOf = (error: Error & { code?: string }): string =>
  error.message.replace(/; if the root CA is installed locally.*$/, "; --ca-file FILE adds its authority") ||
  (error.code ?? "no connection");
