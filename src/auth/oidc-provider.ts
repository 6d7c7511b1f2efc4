/**
 * OpenID Connect: the code flow with PKCE, state and nonce, against one provider of the operator. It is asked for the
 * first time when somebody wants to sign in with it, so that a server starts without a network and goes on without its
 * provider.
 */
import type { ClientAuth, Configuration, ServerMetadata } from "openid-client";
import { truncate } from "../domain/text/excerpt.ts";
import { personOf } from "../domain/login/identity.ts";
import type { Person } from "../domain/login/identity.ts";
import { unavailable } from "../errors.ts";
import type { Fetch } from "../notifications/fetch.ts";

/** How this server proves itself to the provider; `auto` follows what the provider's description offers. */
export type ClientAuthentication = "basic" | "post" | "auto";

export type ProviderSettings = {
  issuer: string;
  clientId: string;
  clientSecret: string;
  clientAuth: ClientAuthentication;
  scopes: string;
  groupsClaim: string;
};

/** What a login must bring back: kept in a cookie of the browser that began it, and in no other place. */
export type Checks = { state: string; nonce: string; verifier: string };

/** A login that the provider, or a check of its answer, refused. The message is for the log. */
export class LoginRefusedError extends Error {
  constructor(reason: string, cause: unknown) {
    super(reason, { cause });
    this.name = "LoginRefusedError";
  }
}

export type Provider = {
  /** Where to send the browser. @throws AppError 503 when the provider does not answer. */
  begin(redirectUri: string): Promise<{ url: string; checks: Checks }>;
  /**
   * Redeems the answer of the provider. `returned` is the redirect URI with the query that the browser brought.
   * @throws LoginRefusedError, AppError 503.
   */
  finish(returned: URL, checks: Checks): Promise<Person>;
};

/** Seconds for one answer of the provider. */
const PATIENCE = 10;
/** Seconds that the provider's clock may differ. */
const CLOCK_TOLERANCE = 30;
/** Seconds after which the provider's description is read anew; its keys are, whenever one is not known. */
const DESCRIPTION_AGE = 3600;

export type ProviderSurroundings = {
  fetch: Fetch;
  /** Epoch seconds. */
  now(): number;
  /** Writes one line of the log. */
  info(facts: Readonly<Record<string, unknown>>, text: string): void;
};

export function createProvider(settings: ProviderSettings, { fetch, now, info }: ProviderSurroundings): Provider {
  let known: { configuration: Configuration; at: number } | null = null;
  /** The method that the log last named. */
  let told: ClientSecretMethod | null = null;

  async function configured(): Promise<Configuration> {
    if (known && known.at > now() - DESCRIPTION_AGE) return known.configuration;
    const client = await import("openid-client");
    const { issuer, clientId, clientSecret } = settings;
    const methods = {
      client_secret_basic: client.ClientSecretBasic(clientSecret),
      client_secret_post: client.ClientSecretPost(clientSecret),
    };
    // The library wants it before it has read what the provider offers; it is called with that for every request.
    const authenticate: ClientAuth = (server, ...request) =>
      methods[methodFor(settings.clientAuth, server)](server, ...request);
    try {
      const metadata = { client_secret: clientSecret, [client.clockTolerance]: CLOCK_TOLERANCE };
      const configuration = await client.discovery(new URL(issuer), clientId, metadata, authenticate, {
        [client.customFetch]: fetch,
        timeout: PATIENCE,
        // The options take http for a provider on this machine alone.
        execute: [
          client.enableNonRepudiationChecks,
          ...(new URL(issuer).protocol === "http:" ? [client.allowInsecureRequests] : []),
        ],
      });
      const server = configuration.serverMetadata();
      const method = methodFor(settings.clientAuth, server);
      if (told !== method) {
        const offered = server.token_endpoint_auth_methods_supported ?? null;
        info(
          { issuer, client_auth: method, offered, oidc_client_auth: settings.clientAuth },
          "the login provider was found",
        );
      }
      told = method;
      known = { configuration, at: now() };
      return configuration;
    } catch (error) {
      throw unavailable("The login provider does not answer", 60, describe(error));
    }
  }

  return {
    async begin(redirectUri) {
      const configuration = await configured();
      const client = await import("openid-client");
      const checks: Checks = {
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
    async finish(returned, { state, nonce, verifier }) {
      const configuration = await configured();
      const client = await import("openid-client");
      try {
        const tokens = await client.authorizationCodeGrant(configuration, returned, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        });
        const claims = tokens.claims();
        if (!claims) throw new Error("the provider sent no ID token");
        const person = personOf(claims.iss, claims.sub, claims, settings.groupsClaim);
        if (
          claims[settings.groupsClaim] !== undefined ||
          configuration.serverMetadata().userinfo_endpoint === undefined
        )
          return person;
        const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub);
        return personOf(claims.iss, claims.sub, { ...more, ...claims }, settings.groupsClaim);
      } catch (error) {
        throw new LoginRefusedError(
          await describeRefusal(error, methodFor(settings.clientAuth, configuration.serverMetadata())),
          error,
        );
      }
    },
  };
}

type ClientSecretMethod = "client_secret_basic" | "client_secret_post";

/**
 * The method for a provider with that description. One that names no methods takes client_secret_basic (OpenID Connect
 * Discovery 1.0, section 3).
 * @throws Error where the description offers none that works with a secret, and the operator chose none.
 */
function methodFor(wanted: ClientAuthentication, server: Readonly<ServerMetadata>): ClientSecretMethod {
  if (wanted !== "auto") return `client_secret_${wanted}`;
  const offered = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  const method = (["client_secret_basic", "client_secret_post"] as const).find((one) => offered.includes(one));
  if (method) return method;
  const shown = truncate(offered.join(", "), MAX_LOGGED_CHARS) || "none";
  throw new Error(
    `it takes no client secret: client_secret_basic and client_secret_post are not among its methods (${shown}); set oidc-client-auth if one works`,
  );
}

/** Characters of what a provider says that the log gets. */
const MAX_LOGGED_CHARS = 500;

/** An OAuth error code and its description (RFC 6749, section 5.2), wherever the provider put them. */
type OAuthError = { error?: unknown; error_description?: unknown };

/** An error with what caused it, as one line. */
function describe(error: unknown): string {
  const parts: string[] = [];
  for (let one: unknown = error; one instanceof Error && parts.length < 5; one = one.cause) {
    const { error: code, error_description: description } = one as OAuthError;
    parts.push(inWords([one.message, code, description]));
  }
  return parts.join(", because ") || String(error);
}

/**
 * As `describe`, for a refused login. A refusal by challenge (401 with WWW-Authenticate) has its code in the parameters
 * of the challenge (RFC 6750, section 3), or in the body only.
 */
async function describeRefusal(error: unknown, method: ClientSecretMethod): Promise<string> {
  const client = await import("openid-client");
  let text = describe(error);
  let codes = error instanceof client.ResponseBodyError ? [error.error] : [];
  if (error instanceof client.WWWAuthenticateChallengeError) {
    const challenges = error.cause.map(({ parameters }) => parameters as OAuthError);
    const said = challenges.find((one) => one.error !== undefined) ?? (await bodyOf(error.response));
    codes = typeof said.error === "string" ? [said.error] : [];
    text = inWords([
      `${text} (${error.cause.map(({ scheme }) => scheme).join(", ")})`,
      said.error,
      said.error_description,
    ]);
  }
  const isClientRefused = codes.some((code) => code === "invalid_client" || code === "unauthorized_client");
  return isClientRefused ? `${text}; this server authenticated with ${method}, see oidc-client-auth` : text;
}

/**
 * The JSON object that a response holds; empty where it holds none. The size of a response is bounded where it is
 * fetched.
 */
async function bodyOf(response: Response): Promise<OAuthError> {
  try {
    const body = (await response.json()) as unknown;
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}

const inWords = (parts: readonly unknown[]): string =>
  parts
    .flatMap((part) => (typeof part === "string" && part !== "" ? [truncate(part, MAX_LOGGED_CHARS)] : []))
    .join(": ");
