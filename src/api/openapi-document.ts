/** The parts of the OpenAPI document that describe the API as a whole and belong to no operation. */
import type { DocumentFacts } from "../http/openapi/document.ts";
import { OUTGOING_WEBHOOKS } from "./outgoing-webhooks.ts";

export const DOCUMENT: Omit<DocumentFacts, "serverUrl"> = {
  title: "Assay API",
  description: [
    "Evidence about software delivery: what was built, tested and approved, and the verdicts that follow from it.",
    "Send an API key as a bearer token, or as the user name of HTTP basic authentication. A user who signed in at " +
      "`/login` is authenticated by the session cookie; requests that change data also need the header " +
      "`X-CSRF-Token` with the token from `/session`.",
    "Request texts must not contain U+0000 or lone surrogates, in keys and values alike, and JSON may nest at most " +
      "128 levels deep: violations get a 400. List parameters accept repeated keys, or one key with comma-separated " +
      "values. Every response has the header `X-Request-ID`. Deprecated operations, parameters and fields still " +
      "work; responses to requests that use them have the headers `Deprecation` and `Link`.",
  ].join("\n\n"),
  license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  // Each operator is responsible for their server: no address is right for all installations.
  contact: { name: "The operator of this server" },
  tags: {
    Actions: "Notifications that environments and flows send to webhooks, Slack and e-mail.",
    Allowlists: "Artifacts that may run in an environment despite a policy violation, each with the reason.",
    Artifacts: "Built artifacts: reports, reads, and downloads of everything recorded about an artifact.",
    Asserts: "The verdict on whether an artifact may run.",
    Attestation: "Records of checks, with their evidence.",
    "Audit Binders": "What an auditor asks about a period, in one document or package.",
    "Audit Log": "What was changed and by whom, and the history of memberships and roles.",
    Builds: "First reports of artifacts, with statistics.",
    Changes: "What happened in an organization during a period.",
    Controls: "Named, versioned requirements that policies refer to, decisions on them, and where they are enforced.",
    "Custom Attestation Types": "Attestation types that an organization defines, with their own schema and rules.",
    Deployments: "Starts of artifacts in environments, with their lead times.",
    EnvDiff: "The difference between two snapshots.",
    Environments: "Where artifacts run: reports of what runs, events, policies, deployments.",
    Evaluations: "Rego policies evaluated on trails by this server, with their inputs, verdicts and decisions.",
    Explanations: "Why snapshots and trails have their verdicts, and what would make them compliant.",
    Flows: "Processes that artifacts and trails belong to, each with a template of the expected attestations.",
    Members: "The people of an organization and their roles.",
    Meta: "The API itself: its OpenAPI document and its version.",
    "Notification Config": "Who is warned of API keys that are about to expire.",
    Organizations: "Organizations: their data, their beta features, and environment actions under a former path.",
    Past: "What was stored at a moment: environments, verdicts and policies as of then.",
    Policies: "Versioned rules for what may run in environments.",
    "Rego policies": "Versioned Rego bundles that evaluations run.",
    Repos: "Source repositories named in reports, with their running artifacts and deployments.",
    Retention: "How long trails and evidence files are kept, and legal holds that keep them longer.",
    Schemas: "JSON Schemas of the YAML documents that the API accepts.",
    Search: "Search for artifacts by the beginning of a fingerprint or a commit id.",
    "Service Accounts": "Accounts for programs, and their API keys.",
    Snapshots: "What ran in an environment from one change to the next.",
    Tags: "Key-value pairs on flows, environments, repositories and controls.",
    Trails: "Runs of a flow: their history, and whether they are compliant.",
    User: "The principal of a request, its organizations and its own API keys.",
    Views: "Lists of the web interface with their filters, under names: of a person, or of the organization.",
    Webhooks: "Signed webhooks of other products, recorded as flows, trails and attestations.",
  },
  callbacks: OUTGOING_WEBHOOKS,
};
