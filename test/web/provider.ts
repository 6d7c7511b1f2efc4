/** A real OpenID provider on loopback, where whoever `person` says signs in without being asked. */
import { generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";
import type { Configuration } from "oidc-provider";

export const CLIENT = { id: "assay", secret: "a-secret-of-this-test-only-0123456789" };

export type OidcServer = Awaited<ReturnType<typeof startProvider>>;

export type ClientMethod = "client_secret_basic" | "client_secret_post";

export type ProviderOptions = {
  /** Whether the claims stand in the ID token; else they are at the userinfo endpoint. */
  inToken: boolean;
  /** How the client is registered, and the only way in which it is let in; as it likes unless given. */
  clientMethod?: ClientMethod;
  /** What the description offers; all methods unless given, null for a description that does not say. */
  offered?: readonly string[] | null;
};

export async function startProvider({ inToken, clientMethod, offered }: ProviderOptions) {
  const state = {
    person: { sub: "42" } as Record<string, unknown> & { sub: string },
    requests: [] as string[],
    /** How the client authenticated itself at the token endpoint, each time. */
    methods: [] as ClientMethod[],
    /** How the token endpoint refuses a client that came in the other way; with a challenge unless changed. */
    refuse: ((response) => {
      const header = 'Basic realm="test", error="invalid_client", error_description="this client has another method"';
      response
        .writeHead(401, { "WWW-Authenticate": header, "Content-Type": "application/json" })
        .end('{"error":"invalid_client"}');
    }) as (response: ServerResponse) => void,
  };
  let handle: ReturnType<Provider["callback"]> = () => Promise.resolve();
  let provider: Provider | null = null;
  const server = createServer((request, response) => {
    state.requests.push(`${request.method} ${(request.url ?? "").split("?")[0]}`);
    if (provider && request.url?.startsWith("/interaction/"))
      return void provider.interactionFinished(request, response, { login: { accountId: state.person.sub } });
    if (request.method === "POST" && request.url === "/token") {
      const method = request.headers.authorization?.startsWith("Basic ") ? "client_secret_basic" : "client_secret_post";
      state.methods.push(method);
      if (clientMethod !== undefined && method !== clientMethod) return void state.refuse(response);
    }
    if (request.url === "/.well-known/openid-configuration" && offered === null)
      return void describeWithoutMethods(response);
    void handle(request, response);
  });
  // The real one always says.
  const describeWithoutMethods = (response: ServerResponse): void => {
    const path = (name: string): string => `${issuer}/${name}`;
    const description = {
      issuer,
      authorization_endpoint: path("auth"),
      token_endpoint: path("token"),
      jwks_uri: path("jwks"),
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      authorization_response_iss_parameter_supported: true,
    };
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(description));
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

  return {
    issuer,
    state,
    /** An ID token with other claims, signed by the provider. */
    reissue(idToken: string, changes: Record<string, unknown>): string {
      const [head = "", payload = ""] = idToken.split(".");
      const claims = { ...(JSON.parse(Buffer.from(payload, "base64url").toString()) as object), ...changes };
      const signed = `${head}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`;
      return `${signed}.${sign("RSA-SHA256", Buffer.from(signed), privateKey).toString("base64url")}`;
    },
    /** Begins to answer for a server at that address; the provider's own port had to be known first. */
    serve(baseUrl: string): void {
      const configuration: Configuration = {
        ...(offered && { clientAuthMethods: [...offered] as ClientMethod[] }),
        clients: [
          {
            client_id: CLIENT.id,
            client_secret: CLIENT.secret,
            ...(clientMethod && { token_endpoint_auth_method: clientMethod }),
            redirect_uris: [`${baseUrl}/login/oidc/callback`],
          },
        ],
        jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", kid: "one" }] } as NonNullable<
          Configuration["jwks"]
        >,
        cookies: { keys: ["of this test"] },
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
        pkce: { required: () => true },
        conformIdTokenClaims: !inToken,
        claims: {
          openid: ["sub"],
          profile: ["name", "preferred_username"],
          email: ["email", "email_verified"],
          groups: ["groups"],
        },
        findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...state.person, sub }) }),
        async loadExistingGrant({ oidc }) {
          const grant = new oidc.provider.Grant({
            clientId: oidc.client?.clientId as string,
            accountId: oidc.session?.accountId as string,
          });
          grant.addOIDCScope("openid profile email groups");
          await grant.save();
          return grant;
        },
        ttl: { Interaction: 60, Session: 60, Grant: 60, AccessToken: 60, IdToken: 60 },
      };
      // Its warning of a store in memory is meant for others.
      const { warn } = console;
      console.warn = () => undefined;
      provider = new Provider(issuer, configuration);
      console.warn = warn;
      handle = provider.callback();
    },
    /**
     * Follows the redirects of the provider from its address of logins to ours, as a browser without cookies of an
     * earlier visit.
     */
    async visit(address: string): Promise<string> {
      const cookies = new Map<string, string>();
      for (let url = address; ; ) {
        if (!url.startsWith(issuer)) return url;
        const response = await fetch(url, {
          redirect: "manual",
          headers: { Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
        });
        for (const line of response.headers.getSetCookie()) {
          const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
          cookies.set(name, value);
        }
        const location = response.headers.get("Location");
        if (location === null) throw new Error(`${url}: ${response.status} ${await response.text()}`);
        url = new URL(location, url).href;
      }
    },
    async stop(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
