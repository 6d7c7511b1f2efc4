/**
 * OpenID Connect: the authorization code flow with PKCE, state and nonce, against one provider that the operator
 * configured. The provider is first contacted when a user signs in with it, so a server starts without a network and
 * keeps running without its provider.
 */
import type { ClientAuth, Configuration, IDToken, ServerMetadata } from "openid-client";
import { createLru } from "../domain/lru.ts";
import { truncate } from "../domain/text/excerpt.ts";
import { parsePerson } from "../domain/login/identity.ts";
import type { Person } from "../domain/login/identity.ts";
import { unavailable } from "../errors.ts";

/** How this server authenticates to the provider; `auto` chooses from the methods in the provider's metadata. */
export type ClientAuthentication = "basic" | "post" | "auto";

type OidcSettings = {
  issuer: string;
  clientId: string;
  clientSecret: string;
  clientAuth: ClientAuthentication;
  scopes: string;
  groupsClaim: string;
};

/** Values that the callback of a login must match. They are stored in a cookie of the browser and nowhere else. */
export type OidcChecks = { state: string; nonce: string; verifier: string };

/** A login that the provider refused, or whose response failed a check. The message is for the log. */
export class LoginRefusedError extends Error {
  constructor(reason: string, cause: unknown) {
    super(reason, { cause });
    this.name = "LoginRefusedError";
  }
}

export type OidcProvider = {
  /** Starts a login. @returns where to send the browser @throws AppError 503 when the provider does not answer */
  begin(redirectUri: string): Promise<{ url: string; checks: OidcChecks }>;
  /**
   * Completes a login: redeems the authorization code.
   * @param returned the redirect URI with the query that the provider added
   * @throws LoginRefusedError, AppError 503
   */
  finish(returned: URL, checks: OidcChecks): Promise<Person>;
};

/** Time limit of one request to the provider. */
const REQUEST_TIMEOUT_S = 10;
/** How far the provider's clock may be off. */
const CLOCK_TOLERANCE_S = 30;
/** How long the provider's metadata is cached. Its keys are fetched again whenever one is unknown. */
const METADATA_MAX_AGE_S = 3600;
/** States of completed and refused logins that are remembered: more than anyone makes before their cookies expire. */
const MAX_USED_STATES = 10_000;
/** Longest subject identifier (OpenID Connect Core 1.0, section 2). */
const MAX_SUBJECT_CHARS = 255;
/** Characters of the provider's texts that are logged. */
const MAX_LOGGED_CHARS = 500;

type OidcDependencies = {
  /** Makes requests; see createFetch. */
  fetch(url: string, options: object): Promise<Response>;
  /** Epoch seconds. */
  now(): number;
  /** Writes one line of the log. */
  info(facts: Readonly<Record<string, unknown>>, text: string): void;
};

export function createOidcProvider(settings: OidcSettings, dependencies: OidcDependencies): OidcProvider {
  const discover = createDiscovery(settings, dependencies);
  /** When each was used: a provider that accepts a code twice must not turn one login into two sessions. */
  const usedStates = createLru<string, number>({ maxEntries: MAX_USED_STATES });
  return {
    async begin(redirectUri) {
      const configuration = await discover();
      const client = await import("openid-client");
      const checks: OidcChecks = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        verifier: client.randomPKCECodeVerifier(),
      };
      const url = client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: settings.scopes,
        state: checks.state,
        nonce: checks.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(checks.verifier),
        code_challenge_method: "S256",
      });
      return { url: url.href, checks };
    },
    async finish(returned, checks) {
      const configuration = await discover();
      try {
        if (usedStates.get(checks.state) !== undefined) throw new Error("the state of this sign-in was used before");
        usedStates.set(checks.state, dependencies.now());
        const { clientId, groupsClaim } = settings;
        return await redeem(configuration, { returned, checks, clientId, groupsClaim, now: dependencies.now() });
      } catch (error) {
        const method = methodFor(settings.clientAuth, configuration.serverMetadata());
        throw new LoginRefusedError(await describeRefusal(error, method), error);
      }
    },
  };
}

type Redemption = {
  returned: URL;
  checks: OidcChecks;
  clientId: string;
  groupsClaim: string;
  /** Epoch seconds. */
  now: number;
};

/** Reads the provider's metadata, at most once an hour. Logs the authentication method when it is first chosen. */
function createDiscovery(settings: OidcSettings, { fetch, now, info }: OidcDependencies): () => Promise<Configuration> {
  const { issuer, clientId, clientSecret, clientAuth } = settings;
  let cached: { configuration: Configuration; at: number } | null = null;
  let loggedMethod: ClientSecretMethod | null = null;

  function logMethod(server: Readonly<ServerMetadata>): void {
    const method = methodFor(clientAuth, server);
    if (loggedMethod === method) return;
    const offered = server.token_endpoint_auth_methods_supported ?? null;
    info({ issuer, client_auth: method, offered, oidc_client_auth: clientAuth }, "the login provider was found");
    loggedMethod = method;
  }

  return async function discover() {
    if (cached && cached.at > now() - METADATA_MAX_AGE_S) return cached.configuration;
    const client = await import("openid-client");
    const methods = {
      client_secret_basic: client.ClientSecretBasic(clientSecret),
      client_secret_post: client.ClientSecretPost(clientSecret),
    };
    // The library needs this before it has read the metadata, and calls it with the metadata for every request.
    const authenticate: ClientAuth = (server, ...request) => methods[methodFor(clientAuth, server)](server, ...request);
    try {
      const metadata = { client_secret: clientSecret, [client.clockTolerance]: CLOCK_TOLERANCE_S };
      const configuration = await client.discovery(new URL(issuer), clientId, metadata, authenticate, {
        [client.customFetch]: fetch,
        timeout: REQUEST_TIMEOUT_S,
        // The options accept http only for a provider on this machine.
        execute: [
          client.enableNonRepudiationChecks,
          ...(new URL(issuer).protocol === "http:" ? [client.allowInsecureRequests] : []),
        ],
      });
      logMethod(configuration.serverMetadata());
      cached = { configuration, at: now() };
      return configuration;
    } catch (error) {
      const named = issuerNamedIn(error);
      if (named !== null) throw unavailable(describeIssuers(named, issuer), 60, describe(error));
      throw unavailable("The login provider does not answer", 60, describe(error));
    }
  };
}

/** The issuer of metadata that were refused because another one is configured; null for other errors. */
function issuerNamedIn(error: unknown): string | null {
  for (let one: unknown = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth += 1) {
    const { attribute, body } = (one.cause ?? {}) as { attribute?: unknown; body?: { issuer?: unknown } };
    if (attribute === "issuer" && typeof body?.issuer === "string") return truncate(body.issuer, MAX_LOGGED_CHARS);
  }
  return null;
}

/** Most often only a slash at the end differs, so both spellings are shown. */
const describeIssuers = (named: string, configured: string): string =>
  `The login provider calls itself ${named}, but this server knows it as ${configured}. Both must be the same to the ` +
  `letter: the administrator of this server sets oidc-issuer to ${named}`;

/**
 * Exchanges the authorization code for the person's claims. Asks the userinfo endpoint if the ID token has no groups.
 */
async function redeem(
  configuration: Configuration,
  { returned, checks, groupsClaim, ...expected }: Redemption,
): Promise<Person> {
  const client = await import("openid-client");
  const tokens = await client.authorizationCodeGrant(configuration, returned, {
    expectedState: checks.state,
    expectedNonce: checks.nonce,
    pkceCodeVerifier: checks.verifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims) throw new Error("the provider sent no ID token");
  checkIdToken(claims, expected);
  const person = parsePerson(claims, { issuer: claims.iss, subject: claims.sub, groupsClaim });
  const hasUserInfo = configuration.serverMetadata().userinfo_endpoint !== undefined;
  if (claims[groupsClaim] !== undefined || !hasUserInfo) return person;
  const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub);
  return parsePerson({ ...more, ...claims }, { issuer: claims.iss, subject: claims.sub, groupsClaim });
}

/**
 * What the library leaves open (OpenID Connect Core 1.0, sections 2 and 3.1.3.7).
 * @throws Error naming the claim
 */
function checkIdToken({ azp, iat, sub }: IDToken, { clientId, now }: Pick<Redemption, "clientId" | "now">): void {
  if (azp !== undefined && azp !== clientId)
    throw new Error(`the azp claim of the ID token is ${shown(azp)}: it was issued for another client`);
  if (iat > now + CLOCK_TOLERANCE_S)
    throw new Error(
      `the iat claim of the ID token is ${(iat - now).toFixed(0)} seconds in the future: the clock of this server ` +
        "or of the provider is wrong",
    );
  if (sub.length > MAX_SUBJECT_CHARS)
    throw new Error(`the sub claim of the ID token has more than ${MAX_SUBJECT_CHARS} characters`);
}

const shown = (value: unknown): string => truncate(JSON.stringify(value), MAX_LOGGED_CHARS);

type ClientSecretMethod = "client_secret_basic" | "client_secret_post";

/**
 * The authentication method to use with a provider. Metadata without a list of methods means client_secret_basic
 * (OpenID Connect Discovery 1.0, section 3).
 * @throws Error when the list has no method with a client secret and the operator chose none
 */
function methodFor(wanted: ClientAuthentication, server: Readonly<ServerMetadata>): ClientSecretMethod {
  if (wanted !== "auto") return `client_secret_${wanted}`;
  const offered = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  const method = (["client_secret_basic", "client_secret_post"] as const).find((one) => offered.includes(one));
  if (method) return method;
  const methods = truncate(offered.join(", "), MAX_LOGGED_CHARS) || "none";
  throw new Error(
    "it takes no client secret: client_secret_basic and client_secret_post are not among its methods " +
      `(${methods}); set oidc-client-auth if one works`,
  );
}

/** An OAuth error code and its description (RFC 6749, section 5.2), wherever the provider puts them. */
type OAuthError = { error?: unknown; error_description?: unknown };

/** An error and its causes, as one line. */
function describe(error: unknown): string {
  const parts: string[] = [];
  for (let one: unknown = error; one instanceof Error && parts.length < 5; one = one.cause) {
    const { error: code, error_description: description } = one as OAuthError;
    parts.push(joinTexts([one.message, code, description]));
  }
  return parts.join(", because ") || String(error);
}

/**
 * Like `describe`, for a refused login. A 401 with WWW-Authenticate has its code in the parameters of the challenge
 * (RFC 6750, section 3), or only in the body.
 */
async function describeRefusal(error: unknown, method: ClientSecretMethod): Promise<string> {
  const client = await import("openid-client");
  let text = describe(error);
  let codes = error instanceof client.ResponseBodyError ? [error.error] : [];
  if (error instanceof client.WWWAuthenticateChallengeError) {
    const challenges = error.cause.map(({ parameters }) => parameters as OAuthError);
    const refusal = challenges.find((one) => one.error !== undefined) ?? (await bodyOf(error.response));
    codes = typeof refusal.error === "string" ? [refusal.error] : [];
    text = joinTexts([
      `${text} (${error.cause.map(({ scheme }) => scheme).join(", ")})`,
      refusal.error,
      refusal.error_description,
    ]);
  }
  const isClientRefused = codes.some((code) => code === "invalid_client" || code === "unauthorized_client");
  return isClientRefused ? `${text}; this server authenticated with ${method}, see oidc-client-auth` : text;
}

/** The JSON object in a response; empty when there is none. The client that fetches it bounds its size. */
async function bodyOf(response: Response): Promise<OAuthError> {
  try {
    const body = (await response.json()) as unknown;
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}

const joinTexts = (parts: readonly unknown[]): string =>
  parts
    .flatMap((part) => (typeof part === "string" && part !== "" ? [truncate(part, MAX_LOGGED_CHARS)] : []))
    .join(": ");
