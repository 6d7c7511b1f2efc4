/** A real OpenID provider on loopback. It signs in `person` without a form. */
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
  /** Whether the claims are in the ID token; otherwise the userinfo endpoint returns them. */
  inToken: boolean;
  /** The only authentication method accepted from the client; any method unless given. */
  clientMethod?: ClientMethod;
  /** The methods in the metadata; all unless given, null for metadata without a list. */
  offered?: readonly string[] | null;
};

export async function startProvider({ inToken, clientMethod, offered }: ProviderOptions) {
  const state = {
    person: { sub: "42" } as Record<string, unknown> & { sub: string },
    requests: [] as string[],
    /** The authentication method of each request to the token endpoint. */
    methods: [] as ClientMethod[],
    /** How the token endpoint refuses a client with another method; with a challenge unless changed. */
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
  // The real provider always lists them.
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
    /** Signs an ID token with other claims. */
    reissue(idToken: string, changes: Record<string, unknown>): string {
      const [head = "", payload = ""] = idToken.split(".");
      const claims = { ...(JSON.parse(Buffer.from(payload, "base64url").toString()) as object), ...changes };
      const signed = `${head}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`;
      return `${signed}.${sign("RSA-SHA256", Buffer.from(signed), privateKey).toString("base64url")}`;
    },
    /** Registers the server at that address, which could only start once the provider's port was known. */
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
      // Ignores its warning about the in-memory store.
      const { warn } = console;
      console.warn = () => undefined;
      provider = new Provider(issuer, configuration);
      console.warn = warn;
      handle = provider.callback();
    },
    /** Follows the redirects from the provider's login URL to ours, like a browser without cookies of the provider. */
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
