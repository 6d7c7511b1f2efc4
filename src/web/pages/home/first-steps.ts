/** What an organization without flows and environments is shown: the three steps to the first trail. */
import { listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import { createFlowWithTemplate } from "../../../api/flows/flows.ts";
import { icon } from "../../components/icon.ts";
import { card, linkButton, padded, snippet, tabs } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

type Place = { address: string; org: string };
type Pipeline = { key: string; text: string; file: string | null; snippet(place: Place): string };

const FLOW = "backend-api";

const BEGIN = 'kosli begin trail "$KOSLI_TRAIL"';
const ARTIFACT = "kosli attest artifact backend.tar.gz --artifact-type file --name backend";
const TESTS = "kosli attest junit --name backend.unit-tests --results-dir test-results";

/** The commands where the client does not know the commit and the build by itself. @param build its address */
const explicit = (build: string): readonly string[] => [
  `${BEGIN} --commit "$KOSLI_TRAIL"`,
  `${ARTIFACT} \\`,
  `  --commit "$KOSLI_TRAIL" --build-url "${build}" --commit-url "${build}"`,
  `${TESTS} --commit "$KOSLI_TRAIL"`,
];

const indented = (lines: readonly string[], by: number): string =>
  lines.map((line) => `${" ".repeat(by)}${line}`).join("\n");

const PIPELINES: readonly Pipeline[] = [
  {
    key: "shell",
    text: "Shell",
    file: null,
    snippet: ({ address, org }) =>
      [
        `export KOSLI_HOST=${address}`,
        `export KOSLI_ORG=${org}`,
        "export KOSLI_API_TOKEN=KEY",
        `export KOSLI_FLOW=${FLOW}`,
        "export KOSLI_TRAIL=$(git rev-parse HEAD)",
        ...explicit("https://ci.example.com/builds/1"),
      ].join("\n"),
  },
  {
    key: "github",
    text: "GitHub Actions",
    file: ".github/workflows/evidence.yml",
    snippet: ({ address, org }) => `name: evidence
on: push
env:
  KOSLI_HOST: ${address}
  KOSLI_ORG: ${org}
  KOSLI_API_TOKEN: \${{ secrets.KOSLI_API_TOKEN }}
  KOSLI_FLOW: ${FLOW}
  KOSLI_TRAIL: \${{ github.sha }}
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with: { fetch-depth: 0 }
      - uses: kosli-dev/setup-cli-action@v2
      - run: |
${indented([BEGIN, ARTIFACT, TESTS], 10)}`,
  },
  {
    key: "gitlab",
    text: "GitLab CI",
    file: ".gitlab-ci.yml",
    snippet: ({ address, org }) => `# KOSLI_API_TOKEN is a masked variable of the project.
evidence:
  variables:
    KOSLI_HOST: ${address}
    KOSLI_ORG: ${org}
    KOSLI_FLOW: ${FLOW}
    KOSLI_TRAIL: $CI_COMMIT_SHA
  script:
${indented(
  [BEGIN, ARTIFACT, TESTS].map((line) => `- ${line}`),
  4,
)}`,
  },
  {
    key: "jenkins",
    text: "Jenkins",
    file: "Jenkinsfile",
    snippet: ({ address, org }) => `pipeline {
  agent any
  environment {
    KOSLI_HOST = '${address}'
    KOSLI_ORG = '${org}'
    KOSLI_API_TOKEN = credentials('kosli-api-token')
    KOSLI_FLOW = '${FLOW}'
    KOSLI_TRAIL = "\${env.GIT_COMMIT}"
  }
  stages {
    stage('Evidence') {
      steps {
        sh '''
${indented(
  explicit("$BUILD_URL").map((line) => line.replace(/ \\$/, " \\\\")),
  10,
)}
        '''
      }
    }
  }
}`,
  },
];

/** The steps; those that the role does not permit are described without their buttons. */
export function firstSteps(visit: Visit): Html {
  const { to, org, address, query } = visit;
  const chosen = PIPELINES.find(({ key }) => key === query.get("pipeline")) ?? (PIPELINES[0] as Pipeline);
  const setting = visit.may(listServiceAccounts)
    ? linkButton(to.settings("service-accounts"), "Service accounts", { icon: "key" })
    : html`<a class="btn" href="${to.account()}">${icon("person")}Your account</a>`;
  const create =
    visit.may(createFlowWithTemplate) &&
    linkButton(to.flows({ ask: "create" }), "New flow", { icon: "plus", kind: "primary" });
  const pipelines = tabs(
    "Pipelines",
    PIPELINES.map(({ key, text }) => ({ text, href: visit.here({ pipeline: key }), isCurrent: key === chosen.key })),
  );
  return html`<div class="stack steps">${step("1. Create an API key", {
    text: "Pipelines sign in with the key of a service account. Store it as a secret: it is shown once.",
    body: html`<div class="actions">${setting}</div>`,
  })}${step("2. Create a flow", {
    text: "A flow collects the evidence of one process: the builds of a service, for instance.",
    body: html`${snippet(`kosli create flow ${FLOW} --use-empty-template \\
  --host ${address} --org ${org} --api-token KEY`)}${create && html`<div class="actions">${create}</div>`}`,
  })}${step("3. Report from a pipeline", {
    text: "The pipeline begins a trail for each commit, and reports what it built and how that was tested.",
    body: html`${pipelines}${chosen.file !== null && html`<p class="sub"><code>${chosen.file}</code></p>`}${snippet(
      chosen.snippet({ address, org }),
    )}`,
  })}</div>`;
}

const step = (title: string, { text, body }: { text: string; body: Html }): Html =>
  card({
    id: `h-step-${title[0]}`,
    title,
    body: padded(html`<div class="step"><p>${text}</p>${body}</div>`),
  });
