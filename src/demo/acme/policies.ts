/** The controls and policies of acme, with all their versions. */
import { SCHEMA_URL } from "../../domain/policy/schema.ts";
import type { Calendar, StoryTime, Step, Teller } from "../steps.ts";
import { ADMIN, ORG } from "./people.ts";

type Control = {
  identifier: string;
  name: string;
  description: string;
  links?: Record<string, string>;
  tags?: Record<string, string>;
};
const CONTROLS: readonly Control[] = [
  {
    identifier: "SEC-REL-4",
    name: "Releases are approved",
    description: "Someone other than the author approves a release before it reaches production.",
    links: { handbook: "https://wiki.acme.example/controls/SEC-REL-4" },
    tags: { framework: "ISO 27001", owner: "release" },
  },
  {
    identifier: "SEC-NET-2",
    name: "Network changes are approved",
    description: "A change to routing or firewall rules has an approval of the platform team.",
    tags: { framework: "ISO 27001", owner: "platform" },
  },
  {
    identifier: "SEC-VUL-1",
    name: "Known vulnerabilities are fixed",
    description: "Containers are scanned before a release, and once a week while they run.",
    tags: { framework: "PCI DSS", owner: "security" },
  },
  { identifier: "SEC-ACC-9", name: "Access is reviewed", description: "Every quarter." },
];

type Version = { at: StoryTime; comment: string; yaml: string };

const SCHEMA = `_schema: ${SCHEMA_URL}`;
const PROVENANCE = ["artifacts:", "  provenance:", "    required: true"];
const IN_TRAIL = ["  trail-compliance:", "    required: true"];
const EXCEPT_BATCH = ["    exceptions:", '      - if: ${{ flow.tags.tier == "batch" }}'];
const rule = (type: string, ...lines: string[]): string[] => [
  `    - type: ${type}`,
  ...lines.map((line) => `      ${line}`),
];
const TESTS = rule("junit", "name: unit-tests");
const SCAN = rule("snyk", "name: snyk-container", "must_be_compliant: true");
const APPROVAL = rule("decision", "for_control: SEC-REL-4", 'if: ${{ flow.tags.pci == "true" }}');
const policyText = (...blocks: (readonly string[])[]): string => `${[SCHEMA, ...blocks.flat()].join("\n")}\n`;
const attestations = (...rules: (readonly string[])[]): string[] => ["  attestations:", ...rules.flat()];

type Policy = { description: string; by: string; versions: readonly Version[] };
const POLICIES: Readonly<Record<string, Policy>> = {
  "prod-baseline": {
    description: "What everything that runs in production has to prove",
    by: "security-duty",
    versions: [
      { at: "62d 08:00", comment: "First version", yaml: policyText(PROVENANCE) },
      {
        at: "55d 09:00",
        comment: "Pull requests for all",
        yaml: policyText(PROVENANCE, attestations(rule("pull_request"))),
      },
      {
        at: "48d 09:00",
        comment: "Unit tests",
        yaml: policyText(PROVENANCE, attestations(rule("pull_request"), TESTS)),
      },
      {
        at: "40d 09:00",
        comment: "Every trail has to be complete",
        yaml: policyText(PROVENANCE, IN_TRAIL, attestations(rule("pull_request"), TESTS)),
      },
      {
        at: "31d 09:00",
        comment: "Batch jobs are released without a trail of their own",
        yaml: policyText(PROVENANCE, IN_TRAIL, EXCEPT_BATCH, attestations(rule("pull_request"), TESTS)),
      },
      {
        at: "20d 09:00",
        comment: "SEC-VUL-1: scans of containers count",
        yaml: policyText(PROVENANCE, IN_TRAIL, EXCEPT_BATCH, attestations(rule("pull_request"), TESTS, SCAN)),
      },
      {
        at: "9d 09:00",
        comment: "SEC-REL-4 for flows with card data",
        yaml: policyText(PROVENANCE, IN_TRAIL, EXCEPT_BATCH, attestations(rule("pull_request"), TESTS, SCAN, APPROVAL)),
      },
    ],
  },
  "pci-controls": {
    description: "Additional rules for everything that sees card data",
    by: "security-duty",
    versions: [
      {
        at: "62d 08:10",
        comment: "First version",
        yaml: policyText(["artifacts:"], attestations(rule("pull_request", "if: ${{ exists(flow) }}"))),
      },
      {
        at: "44d 13:00",
        comment: "Tests too",
        yaml: policyText(
          ["artifacts:"],
          attestations(rule("pull_request", "if: ${{ exists(flow) }}"), rule("junit", "if: ${{ exists(flow) }}")),
        ),
      },
      {
        at: "27d 10:00",
        comment: "SEC-REL-4 instead of tests, which prod-baseline requires",
        yaml: policyText(["artifacts:"], attestations(rule("pull_request", "if: ${{ exists(flow) }}"), APPROVAL)),
      },
    ],
  },
  "staging-baseline": {
    description: "The least that a release needs before it is tried out",
    by: "dev-lead",
    versions: [
      { at: "62d 08:20", comment: "First version", yaml: policyText(PROVENANCE) },
      { at: "37d 15:00", comment: "Unit tests", yaml: policyText(PROVENANCE, attestations(TESTS)) },
    ],
  },
};

const policyVersion = (name: string, { description, by }: Policy, { comment, yaml }: Version) => ({
  by,
  form: {
    field: "payload",
    json: { name, type: "env", description, comment },
    file: { name: "policy_file", filename: "policy.yml", content: yaml },
  },
});

export const policies = ({ time }: Calendar): Step[] => [
  ...CONTROLS.map(({ tags = {}, ...control }, index) => ({
    at: time("63d 07:00") + index * 60,
    async make({ send }: Teller) {
      await send("POST", `/controls/${ORG}`, { by: ADMIN, body: control });
      const body = { set_tags: tags, remove_tags: [] };
      await send("PATCH", `/tags/${ORG}/control/${control.identifier}`, { by: ADMIN, body });
    },
  })),
  {
    at: time("29d 11:00"),
    async make({ send }) {
      const links = { handbook: "https://wiki.acme.example/controls/SEC-REL-4", audit: "https://grc.acme.example/4" };
      await send("PUT", `/controls/${ORG}/SEC-REL-4`, { by: ADMIN, body: { links } });
    },
  },
  {
    at: time("15d 16:00"),
    make: ({ send }) => send("POST", `/controls/${ORG}/SEC-ACC-9/archive`, { by: "security-duty" }),
  },
  ...Object.entries(POLICIES).flatMap(([name, policy]) =>
    policy.versions.map((version) => ({
      at: time(version.at),
      make: ({ send }: Teller) => send("PUT", `/policies/${ORG}`, policyVersion(name, policy, version)),
    })),
  ),
];
