// Starts Swagger UI on this server's own OpenAPI document. The page has no inline script, so that its
// Content-Security-Policy can forbid inline scripts altogether.
"use strict";

// Swagger UI has a dark mode, but leaves the choice to a button in a bar that this page does not have.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

// The page is at <API root>/doc/, below whatever path a proxy serves the API root.
const apiRoot = new URL("..", location.href).href.replace(/\/$/, "");

// Swagger UI reads every "_" in a URL as an old way to write a space, and complains on the console. Our operation ids
// are full of them, so this reads the URL literally: #/<tag>/<operation id>, already decoded.
const deepLinks = () => ({
  statePlugins: {
    layout: {
      wrapActions: {
        parseDeepLinkHash: (_original, { layoutActions, layoutSelectors }) => (hash) => {
          const [tag, operation] = hash.replace(/^#\/?/, "").split("/");
          const shown = layoutSelectors.isShownKeyFromUrlHashArray([tag, operation]);
          if (shown.length === 0) return;
          layoutActions.show(layoutSelectors.isShownKeyFromUrlHashArray([tag]), true);
          layoutActions.show(shown, true);
          layoutActions.scrollTo(shown);
          layoutActions.scrollToVirtualizedOperation(shown);
        },
      },
    },
  },
});

// Shows the user of this browser's session, and returns the CSRF token for their changes; null without a session.
async function signedIn() {
  const answer = await fetch(`${apiRoot.replace(/\/api\/[^/]+$/, "")}/session`);
  const { user, csrf_token: token } = answer.ok ? await answer.json() : { user: null };
  if (user === null) return null;
  const link = document.getElementById("account");
  link.textContent = `Signed in as ${user}`;
  link.href = "../../../account";
  return token;
}

async function show() {
  const token = await signedIn();
  const answer = await fetch(`${apiRoot}/openapi.json`, { credentials: "omit" });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const spec = await answer.json();
  // The document names the server's public address. Keys typed here must go to the server that served this page only.
  spec.servers = [{ url: apiRoot }];
  SwaggerUIBundle({
    spec,
    domNode: document.getElementById("reference"),
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    plugins: [deepLinks],
    deepLinking: true,
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
    filter: true,
    showExtensions: true,
    displayRequestDuration: true,
    // Keys stay in memory; no URL in the query can replace the document; no external service validates it.
    persistAuthorization: false,
    queryConfigEnabled: false,
    validatorUrl: null,
    // A pasted key takes precedence over the session, and no cookie is sent with it. Without "omit", a refused key would
    // also make the browser ask for a password, and store it.
    requestInterceptor: (request) => {
      const hasKey = Object.keys(request.headers).some((name) => name.toLowerCase() === "authorization");
      if (token === null || hasKey) return Object.assign(request, { credentials: "omit" });
      return Object.assign(request, { credentials: "same-origin", headers: { ...request.headers, "X-CSRF-Token": token } });
    },
  });
}

show().catch((error) => {
  const problem = document.createElement("p");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = `The description of the API could not be loaded: ${error.message}. Reload the page to try again.`;
  document.getElementById("reference").replaceChildren(problem);
});
