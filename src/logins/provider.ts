/**
 * OpenID Connect: the code flow with PKCE, state and nonce, against one provider of the operator. It is asked for the first time when
 * somebody wants to sign in with it, so that a server starts without a network and goes on without its provider.
 */
import type { Configuration } from "openid-client";
import { personOf } from "../domain/login/identity.ts";
import type { Person } from "../domain/login/identity.ts";
import { unavailable } from "../errors.ts";
import type { Fetch } from "../outgoing/fetch.ts";

export type ProviderSettings = { issuer: string; clientId: string; clientSecret: string; scopes: string; groupsClaim: string };

/** What a login must bring back: kept in a cookie of the browser that began it, and in no other place. */
export type Checks = { state: string; nonce: string; verifier: string };

/** A login that the provider, or a check of its answer, refused. The message is for the log. */
export class LoginRefusedError extends Error {
  constructor(cause: unknown) {
    super(describe(cause), { cause });
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

/** @param now epoch seconds */
export function createProvider(settings: ProviderSettings, fetch: Fetch, now: () => number): Provider {
  let known: { configuration: Configuration; at: number } | null = null;

  async function configured(): Promise<Configuration> {
    if (known && known.at > now() - DESCRIPTION_AGE) return known.configuration;
    const client = await import("openid-client");
    const { issuer, clientId, clientSecret } = settings;
    try {
      const configuration = await client.discovery(new URL(issuer), clientId, { client_secret: clientSecret, [client.clockTolerance]: CLOCK_TOLERANCE }, undefined, {
        [client.customFetch]: fetch,
        timeout: PATIENCE,
        // The options take http for a provider on this machine alone.
        execute: [client.enableNonRepudiationChecks, ...(new URL(issuer).protocol === "http:" ? [client.allowInsecureRequests] : [])],
      });
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
      const checks: Checks = { state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() };
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
        const tokens = await client.authorizationCodeGrant(configuration, returned, { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true });
        const claims = tokens.claims();
        if (!claims) throw new Error("the provider sent no ID token");
        const person = personOf(claims.iss, claims.sub, claims, settings.groupsClaim);
        if (claims[settings.groupsClaim] !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined) return person;
        const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub);
        return personOf(claims.iss, claims.sub, { ...more, ...claims }, settings.groupsClaim);
      } catch (error) {
        throw new LoginRefusedError(error);
      }
    },
  };
}

/** An error with what caused it, as one line. */
function describe(error: unknown): string {
  const parts: string[] = [];
  for (let one: unknown = error; one instanceof Error && parts.length < 5; one = one.cause) {
    const { error: code, error_description: description } = one as { error?: unknown; error_description?: unknown };
    parts.push([one.message, code, description].filter((part) => typeof part === "string").join(": "));
  }
  return parts.join(", because ") || String(error);
}
