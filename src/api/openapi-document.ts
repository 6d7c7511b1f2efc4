/** What the OpenAPI document says about the API as a whole: facts that belong to no operation. */
import type { DocumentFacts } from "../http/openapi/document.ts";
import { OUTGOING_WEBHOOKS } from "./outgoing-webhooks.ts";

export const DOCUMENT: Omit<DocumentFacts, "serverUrl"> = {
  title: "Assay API",
  description: [
    "Evidence about software delivery: what was built, tested and approved, and the verdicts that follow from it.",
    "Send an API key as bearer token, or as user name of HTTP basic authentication. Somebody who signed in at " +
      "`/login` is known by the cookie of their browser; their changes bring the token that `/session` gives, in the " +
      "header `X-CSRF-Token`.",
    "Texts in requests hold no U+0000 and no lone surrogates, in keys and values alike, and JSON nests at most 128 " +
      "levels deep: anything else is a 400. List parameters take repeated keys, or one key with values joined by " +
      "commas. Every answer has the header `X-Request-ID`. Deprecated operations, parameters and fields still work; " +
      "answers to requests that use them have the headers `Deprecation` and `Link`.",
  ].join("\n\n"),
  license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  // Whoever runs a server answers for it: there is no address that is right for all installations.
  contact: { name: "The operator of this server" },
  tags: {
    Actions: "Notifications that environments and flows send to webhooks, Slack and e-mail.",
    Allowlists: "Artifacts that may run in an environment although a policy is against it, each with the reason.",
    Artifacts: "Built artifacts: reporting them, reading them, and everything that is recorded about one.",
    Asserts: "The verdict on whether an artifact may run.",
    Attestation: "Records that something was checked, with their evidence.",
    "Audit Log": "The history of memberships and roles.",
    Builds: "First reports of artifacts, with statistics.",
    Controls:
      "Demands with a name and versions that policies refer to, the decisions on them, and where they are enforced.",
    "Custom Attestation Types": "Attestation types of an organization, with a schema and rules of its own.",
    Deployments: "Starts of artifacts in environments, with their lead times.",
    EnvDiff: "The difference between two snapshots.",
    Environments: "Places where artifacts run: reporting what runs there, events, policies, deployments.",
    Flows: "Processes that artifacts and trails belong to, with the template of what is expected.",
    Meta: "The API itself: its document and its version.",
    "Notification Config": "Who is warned of API keys that are about to end.",
    Organizations: "Organizations: their data, their beta features, and environment actions under their older name.",
    Policies: "Rules for what may run in environments, in versions.",
    Repos: "Source repositories that reports name, and what runs and was deployed out of them.",
    Schemas: "JSON Schemas of the YAML documents that the API takes.",
    Search: "Finding artifacts by the beginning of a fingerprint or a commit id.",
    "Service Accounts": "Accounts for programs, and their API keys.",
    Snapshots: "What ran in an environment from one change to the next.",
    Tags: "Key-value pairs on flows, environments, repositories and controls.",
    Trails: "Runs of a flow: what happened in them, and whether they are compliant.",
    User: "The default organization of the caller.",
    Webhooks: "Calls that other products sign, which become flows, trails and attestations.",
  },
  webhooks: OUTGOING_WEBHOOKS,
};
