/** What pipelines of each product run to report a build: a file of theirs, or lines for a shell. */

type Place = { address: string; org: string };
/** @property file where the text belongs; null for lines that are pasted */
type Pipeline = { key: string; text: string; file: string | null; snippet(place: Place): string };

/** The flow of all examples. */
export const FLOW = "backend-api";

const BEGIN = 'kosli begin trail "$KOSLI_TRAIL"';
const ARTIFACT = "kosli attest artifact backend.tar.gz --artifact-type file --name backend";
const TESTS = "kosli attest junit --name backend.unit-tests --results-dir test-results";

/**
 * The commands where the client does not know the commit and the build by itself.
 * @param at the addresses of the build and of the commit, as words of a shell
 */
const explicit = (at: { build: string; commit: string }): readonly string[] => [
  `${BEGIN} --commit "$KOSLI_TRAIL"`,
  `${ARTIFACT} --commit "$KOSLI_TRAIL" \\`,
  `  --build-url "${at.build}" \\`,
  `  --commit-url "${at.commit}"`,
  `${TESTS} --commit "$KOSLI_TRAIL"`,
];

const indented = (lines: readonly string[], by: number): string =>
  lines.map((line) => `${" ".repeat(by)}${line}`).join("\n");

/** The address of the repository, where nothing but the person knows it. */
const REPOSITORY = `https://git.example.com/acme/${FLOW}`;

const shell: Pipeline["snippet"] = ({ address, org }) =>
  [
    `export KOSLI_HOST=${address}`,
    `export KOSLI_ORG=${org}`,
    "export KOSLI_API_TOKEN=KEY",
    `export KOSLI_FLOW=${FLOW}`,
    "export KOSLI_TRAIL=$(git rev-parse HEAD)",
    `REPOSITORY=${REPOSITORY}`,
    ...explicit({ build: "https://ci.example.com/builds/1", commit: "$REPOSITORY/commit/$KOSLI_TRAIL" }),
  ].join("\n");

const github: Pipeline["snippet"] = ({ address, org }) => `name: evidence
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
${indented([BEGIN, ARTIFACT, TESTS], 10)}`;

const gitlab: Pipeline["snippet"] = ({ address, org }) => `# KOSLI_API_TOKEN is a masked variable of the project.
evidence:
  variables:
    KOSLI_HOST: ${address}
    KOSLI_ORG: ${org}
    KOSLI_FLOW: ${FLOW}
    KOSLI_TRAIL: $CI_COMMIT_SHA
    GIT_DEPTH: 0
  script:
${indented(
  [BEGIN, ARTIFACT, TESTS].map((line) => `- ${line}`),
  4,
)}`;

const jenkins: Pipeline["snippet"] = ({ address, org }) => `pipeline {
  agent any
  environment {
    KOSLI_HOST = '${address}'
    KOSLI_ORG = '${org}'
    KOSLI_API_TOKEN = credentials('kosli-api-token')
    KOSLI_FLOW = '${FLOW}'
    KOSLI_TRAIL = "\${env.GIT_COMMIT}"
    REPOSITORY = '${REPOSITORY}'
  }
  stages {
    stage('Evidence') {
      steps {
        sh '''
${indented(
  explicit({ build: "$BUILD_URL", commit: "$REPOSITORY/commit/$KOSLI_TRAIL" }).map((line) =>
    line.replace(/ \\$/, " \\\\"),
  ),
  10,
)}
        '''
      }
    }
  }
}`;

/** Azure replaces `$(...)` before a shell sees the script. */
const AZURE_PROJECT = "$(System.CollectionUri)$(System.TeamProject)";

const azure: Pipeline["snippet"] = ({ address, org }) => `# KOSLI_API_TOKEN is a secret variable of the pipeline.
trigger: [main]
variables:
  KOSLI_HOST: ${address}
  KOSLI_ORG: ${org}
  KOSLI_FLOW: ${FLOW}
  KOSLI_TRAIL: $(Build.SourceVersion)
steps:
  - checkout: self
    fetchDepth: 0
  - bash: |
${indented(
  explicit({
    build: `${AZURE_PROJECT}/_build/results?buildId=$(Build.BuildId)`,
    commit: `${AZURE_PROJECT}/_git/$(Build.Repository.Name)/commit/$(Build.SourceVersion)`,
  }),
  6,
)}
    env:
      KOSLI_API_TOKEN: $(KOSLI_API_TOKEN)`;

export const PIPELINES: readonly [Pipeline, ...Pipeline[]] = [
  { key: "shell", text: "Shell", file: null, snippet: shell },
  { key: "github", text: "GitHub Actions", file: ".github/workflows/evidence.yml", snippet: github },
  { key: "gitlab", text: "GitLab CI", file: ".gitlab-ci.yml", snippet: gitlab },
  { key: "jenkins", text: "Jenkins", file: "Jenkinsfile", snippet: jenkins },
  { key: "azure", text: "Azure Pipelines", file: "azure-pipelines.yml", snippet: azure },
];
