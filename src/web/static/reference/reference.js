// Starts Swagger UI on this server's own OpenAPI document. The page has no inline script, so that its Content-Security-Policy
// can forbid all of it.
"use strict";

// Swagger UI has a dark look of its own but leaves the choice to a button of a bar that this page does not have.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

// The page lies at <API root>/doc/, wherever a proxy has put the API root.
const apiRoot = new URL("..", location.href).href.replace(/\/$/, "");

// Swagger UI takes every "_" of an address for an old way to write a space and complains on the console. Our operation ids
// are full of them, so the address is taken at its word here: #/<tag>/<operation id>, already decoded.
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

// Who signed in with this browser, and the token that their changes must bring; null where nobody did.
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
  // The document names the public address of the server. Keys typed here go to the server that served this page and to no other.
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
    // A key is kept in memory only; no address in the query may replace the document; nobody else checks it.
    persistAuthorization: false,
    queryConfigEnabled: false,
    validatorUrl: null,
    // A pasted key counts, whoever signed in, and then cookies stay here. Without this a refused key would also make the browser ask
    // for a password, and keep it.
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
