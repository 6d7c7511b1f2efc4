/** The flows of acme: what each expects of a trail, their tags and repositories. */
import type { Calendar, Step, Teller } from "../steps.ts";
import { ADMIN, ORG } from "./people.ts";

/** Attestation name -> type. */
type Expected = Readonly<Record<string, string>>;
export type StoryTemplate = { trail: Expected; artifacts: Readonly<Record<string, Expected>> };

/** What every container image has to show, also one that no template names. */
export const SERVICE: Expected = { "unit-tests": "junit", "snyk-container": "snyk" };

const BACKEND: StoryTemplate = {
  trail: {
    "pull-request": "pull_request",
    "jira-ticket": "jira",
    "release-approval": "decision",
    "sonar-gate": "sonar",
  },
  artifacts: {
    "backend-api": { ...SERVICE, sbom: "custom:cyclonedx", "license-scan": "custom:licenses" },
    "db-migrations": { "dry-run": "generic", "unit-tests": "junit" },
  },
};

type Flow = {
  template: StoryTemplate;
  description: string;
  tags: Record<string, string>;
  repo: string;
  account: string;
};

export const FLOWS = {
  "backend-api": {
    template: BACKEND,
    description: "Payments API, its workers and its database migrations",
    tags: { tier: "core", pci: "true", team: "payments", runbook: "https://wiki.acme.example/backend-api" },
    repo: "acme/backend-api",
    account: "ci-backend-api",
  },
  "web-checkout": {
    template: {
      trail: { "pull-request": "pull_request", "jira-ticket": "jira" },
      artifacts: { "web-checkout": { ...SERVICE, "browser-tests": "junit", "bundle-size": "generic" } },
    },
    description: "The checkout that customers see",
    tags: { tier: "core", pci: "false", team: "storefront" },
    repo: "acme/web-checkout",
    account: "ci-web-checkout",
  },
  infra: {
    template: {
      trail: { "pull-request": "pull_request", plan: "generic", "change-approval": "decision" },
      artifacts: { ingress: SERVICE },
    },
    description: "Networks and clusters, applied with Terraform",
    tags: { tier: "platform", pci: "false", team: "platform" },
    repo: "acme/infra",
    account: "ci-infra",
  },
} as const satisfies Record<string, Flow>;

export type FlowName = keyof typeof FLOWS;

/** The template of services that are released on their own, apart from the releases of their flow. */
export const serviceTemplate = (services: readonly string[]): StoryTemplate => ({
  trail: { "pull-request": "pull_request", "sonar-gate": "sonar", "release-approval": "decision" },
  artifacts: Object.fromEntries(services.map((service) => [service, SERVICE])),
});

/** The template of a pull request, which builds nothing that is released. */
export const CHANGE: StoryTemplate = {
  trail: { "pull-request": "pull_request", "unit-tests": "junit", "sonar-gate": "sonar" },
  artifacts: {},
};

const linesOf = (expected: Expected, indent: string): string[] =>
  Object.entries(expected).flatMap(([name, type]) => [`${indent}- name: ${name}`, `${indent}  type: ${type}`]);

/** The template as text, in the form in which people write it. */
const templateText = ({ trail, artifacts }: StoryTemplate): string =>
  [
    "version: 1",
    "trail:",
    "  attestations:",
    ...linesOf(trail, "    "),
    ...(Object.keys(artifacts).length === 0 ? [] : ["  artifacts:"]),
    ...Object.entries(artifacts).flatMap(([name, expected]) => [
      `    - name: ${name}`,
      "      attestations:",
      ...linesOf(expected, "        "),
    ]),
    "",
  ].join("\n");

export const storyTemplateFile = (template: StoryTemplate) => ({
  name: "template_file",
  filename: "template.yml",
  content: templateText(template),
});

export const repoOf = (flow: FlowName) => {
  const name = FLOWS[flow].repo;
  return { id: `project-${name.length}`, name, url: `https://git.acme.example/${name}`, provider: "gitlab" };
};

const TYPES = [
  {
    name: "cyclonedx",
    description: "Software bill of materials",
    schema: {
      type: "object",
      required: ["components", "spec_version"],
      properties: { components: { type: "integer", minimum: 0 }, spec_version: { type: "string" } },
    },
    rules: [".components > 0"],
    summary: [
      { name: "Components", expression: ".components" },
      { name: "Specification", expression: ".spec_version" },
    ],
  },
  {
    name: "licenses",
    description: "Licences of all dependencies",
    schema: { type: "object", required: ["unknown", "forbidden"], properties: { unknown: { type: "integer" } } },
    rules: [".unknown == 0", ".forbidden | length == 0"],
    summary: [
      { name: "Unknown licences", expression: ".unknown" },
      { name: "Forbidden licences", expression: '.forbidden | join(", ")' },
    ],
  },
];

export const flows = ({ time }: Calendar): Step[] => [
  ...TYPES.map(({ name, description, schema, rules, summary }, index) => ({
    at: time("63d 08:30") + index * 60,
    async make({ send }: Teller) {
      await send("POST", `/custom-attestation-types/${ORG}`, {
        by: ADMIN,
        form: {
          json: { name, description, evaluator: { content_type: "jq", rules }, summary },
          file: { name: "type_schema", filename: "schema.json", content: JSON.stringify(schema) },
        },
      });
    },
  })),
  ...Object.entries(FLOWS).map(([name, { template, description, tags }], index) => ({
    at: time("63d 09:00") + index * 600,
    async make({ send }: Teller) {
      const form = { json: { name, description }, file: storyTemplateFile(template) };
      await send("PUT", `/flows/${ORG}/template_file`, { by: "dev-lead", form });
      await send("PATCH", `/tags/${ORG}/flow/${name}`, { by: "dev-lead", body: { set_tags: tags, remove_tags: [] } });
    },
  })),
  {
    at: time("33d 12:00"),
    async make({ send }) {
      const { repos } = await send("GET", `/repos/${ORG}`, { by: ADMIN });
      for (const { id, name } of repos) {
        const body = { set_tags: { criticality: name === FLOWS.infra.repo ? "medium" : "high" }, remove_tags: [] };
        await send("PATCH", `/tags/${ORG}/repo/${id}`, { by: ADMIN, body });
      }
    },
  },
];
