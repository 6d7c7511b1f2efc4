/**
 * `assay dev`: a self-configuring server for one developer. It keeps its API key in the data directory, so that every
 * start prints the same key; the key gives access to nothing outside that directory. It refuses data that was set up
 * otherwise.
 */
import { existsSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findPackedExecutable } from "../../assets.ts";
import { readTokenFile } from "../../auth/first-admin.ts";
import { importApiKey } from "../../api/operator/user-api-keys.ts";
import { setUserPassword } from "../../api/operator/users.ts";
import type { Instance } from "../../server/instance.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import { NEW_DATABASE_OPTION } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { createFirstPlan } from "./init.ts";
import { withOperator } from "../operator.ts";
import type { Operator } from "../operator.ts";
import { showProgress } from "../progress.ts";
import { announceAddresses, applyPlanFile, runServer } from "./serve.ts";
import type { Announcement } from "./serve.ts";
import { newSecret, systemSources } from "../../clock.ts";
import { DemoPlaceError, makeDemo } from "../../demo/make.ts";
import { isDemo, tourOf } from "../../demo/tour.ts";
import { SCHEMA_URL } from "../../domain/policy/schema.ts";
import { onPathSync } from "../../domain/text/system-errors.ts";

const ORGANIZATION = "acme";
const USER = "dev";
const FLOW = "first-flow";
/** Not a name that the demonstration uses. */
const ENVIRONMENT = "first-environment";
const KEY_FILE = "dev-key";
const KEY_DESCRIPTION = "assay dev";

const DEMO = "demo";

export const dev: Command = {
  name: "dev",
  summary: "Run a self-configuring server for development",
  usage: "[--demo] [OPTIONS]",
  details: [
    "Like assay serve, with these differences: the data directory defaults to .assay-dev and the log level to " +
      "warn, responses are checked against the OpenAPI document, and the first start creates organization " +
      `${ORGANIZATION} with admin ${USER} and an API key. Prints the key, which is also the password in the web ` +
      "pages, the settings of the Kosli CLI, and a shell script that records a first attestation and reports an " +
      "environment.",
    "--demo first fills a new data directory with two months of the history of a company, until now, in three flows " +
      "and five environments, which takes some seconds. It prints what to look at, in order. Everything is made by " +
      "the operations of the API, on a clock that is set for it. Later starts, without --demo, serve what is there.",
  ],
  options: {
    [DEMO]: {
      kind: "switch",
      description: "Begin with two months of the history of a company; refused on a directory with data",
    },
    ...NEW_DATABASE_OPTION,
  },
  takesConfig: true,
  configuration: { required: ["data"], defaults: { data: ".assay-dev", logLevel: "warn" }, complete: true },
  run(args, io) {
    let [key, place] = ["", ""];
    let tours = false;
    return runServer(args, io, {
      configuration: dev.configuration,
      checkResponses: true,
      ...(args.switches.has(DEMO) ? { fill: (target) => fillWithDemo(io, target, args.switches.has("json")) } : {}),
      setUp: async (data, directory) => {
        const { key: found, isNew } = await setUp(data, directory);
        [key, place, tours] = [found, directory, isDemo(data.store)];
        await givePassword(data, { directory, key, isNew });
      },
      announce: (instance) =>
        announceDev(instance, { key, directory: place, tours, program: programWord(io.env["PATH"]) }),
    });
  },
};

type Target = { directory: string; undo(): void; signal: AbortSignal };

/** @throws CommandError where the directory has data; the errors of `makeDemo` */
async function fillWithDemo(io: Io, target: Target, quiet: boolean): Promise<void> {
  const progress = showProgress(io, { quiet });
  try {
    await makeDemo({
      ...target,
      now: systemSources.now(),
      developer: USER,
      onStep(step, steps) {
        if (step === 0) progress.begin("two months of history", steps, "files");
        progress.reach(step);
      },
    });
  } catch (error) {
    if (!(error instanceof DemoPlaceError)) throw error;
    throw new CommandError(
      `${error.message}: run assay dev without --demo to serve it, or give a new directory with --data`,
    );
  } finally {
    progress.end();
  }
}

type DevKey = { key: string; isNew: boolean };

/** Creates the developer's organization, user and key where they are missing. @returns a live key. */
async function setUp({ store }: Data, directory: string): Promise<DevKey> {
  const file = join(directory, KEY_FILE);
  const user = store.users.find(USER);
  if (!user && (store.users.count() > 0 || store.organizations.list().length > 0)) {
    throw new CommandError(
      `${directory} was not set up by assay dev: run assay serve on it, or choose another directory with --data`,
    );
  }
  const stored = readTokenFile(file);
  const known = stored === null ? null : store.apiKeys.find(keyDigest(stored));
  if (stored !== null && known && store.apiKeys.isActive(known)) return { key: stored, isNew: false };

  // The file is written first: a start that crashes in between leaves an unknown key in it, which the next replaces.
  const key = newSecret();
  onPathSync(`${file}.new`, () => writeFileSync(`${file}.new`, `${key}\n`, { mode: 0o600 }));
  renameSync(`${file}.new`, file);
  const plan = createFirstPlan(
    { org: ORGANIZATION, user: USER, email: null, displayName: "Developer" },
    { description: KEY_DESCRIPTION, text: key },
  );
  await asDeveloper<unknown>(directory, (operator) =>
    user
      ? operator.call(importApiKey, { body: { user: USER, description: KEY_DESCRIPTION, key } })
      : applyPlanFile(operator, { plan, name: KEY_FILE }),
  );
  return { key, isNew: true };
}

/** Makes a new key the password of the developer in the web pages; one that they chose later stays. */
async function givePassword({ store }: Data, { directory, key, isNew }: DevKey & { directory: string }): Promise<void> {
  const user = store.users.find(USER);
  if (!user || (!isNew && store.passwords.find(user.id) !== null)) return;
  await asDeveloper(directory, ({ call }) =>
    call(setUserPassword, { params: { user: USER }, body: { password: key } }),
  );
}

/** The server holds the lock of the directory, and does not serve yet. */
const asDeveloper = <T>(directory: string, work: (operator: Operator) => Promise<T>): Promise<T> =>
  withOperator(directory, { command: "dev", opening: { locked: true } }, work);

/** @property program how a shell calls this program */
type Announced = { key: string; directory: string; tours: boolean; program: string };

function announceDev(instance: Instance, { key, directory, tours, program }: Announced): Announcement {
  const { text, fields } = announceAddresses(instance);
  const pages = `${instance.baseUrl}/${ORGANIZATION}`;
  const environment = { KOSLI_HOST: instance.baseUrl, KOSLI_ORG: ORGANIZATION, KOSLI_API_TOKEN: key, KOSLI_FLOW: FLOW };
  const explain = (what: string): string =>
    `${program} explain ${what} --org ${ORGANIZATION} --data ${shellWord(directory)}`;
  const script = firstAttestationScript(environment, explain(ENVIRONMENT));
  const tour = tours
    ? tourOf(instance.baseUrl).map((stop) => ({
        title: stop.title,
        url: stop.url,
        command: stop.explain === null ? null : explain(stop.explain),
      }))
    : [];
  return {
    text:
      `${text}web pages: ${pages} (sign in as ${USER} with the API key as password)\n` +
      `organization: ${ORGANIZATION}\nAPI key: ${key}\n\n` +
      "This shell serves until Ctrl-C. Paste this script into a second one to record a first\n" +
      "attestation, report what runs in an environment, and query the verdicts. Its four export\n" +
      "lines also configure the Kosli CLI:\n\n" +
      `${script}\n${renderTour(tour)}`,
    fields: {
      ...fields,
      pages,
      user: USER,
      organization: ORGANIZATION,
      api_key: key,
      environment,
      script,
      ...(tours ? { tour } : {}),
    },
  };
}

/** A stop of the tour with the whole command. */
type ShownStop = { title: string; url: string; command: string | null };

/** How a shell with this PATH calls this program: by its name where that leads to it, else by its path. */
function programWord(path: string | undefined): string {
  const executable = findPackedExecutable();
  if (executable === null) return "assay";
  const named = (path ?? "")
    .split(":")
    .map((directory) => join(directory, "assay"))
    .find((file) => existsSync(file));
  return named !== undefined && realpathSync(named) === realpathSync(executable) ? "assay" : shellWord(executable);
}

function renderTour(tour: readonly ShownStop[]): string {
  if (tour.length === 0) return "";
  const stops = tour.map(({ title, url, command }, index) =>
    [`${index + 1}. ${title}`, url, ...(command === null ? [] : [command])].join("\n   "),
  );
  return `\nWhat to look at, in this order:\n\n${stops.join("\n\n")}\n`;
}

/**
 * Returns a script for a POSIX shell with curl: a flow with a template, a trail, an artifact, an attestation with
 * evidence, the verdict on the artifact, an environment with a policy that runs it, and the verdict there. It prints a
 * line for each request, and the command `next` at the end. It stops at the first request that is refused, with the
 * answer. It may be run again: everything but the reports of the artifact and the attestation is an update. All but its
 * export lines runs in a subshell, so that a failure neither ends the shell nor leaves anything in it.
 */
function firstAttestationScript(environment: Readonly<Record<string, string>>, next: string): string {
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}=${shellQuote(value)}`);
  return `${exports.join("\n")}\n\n(\n${PREPARATION}\n\n${REQUESTS}\n\n${CONCLUSION}${shellQuote(next)}\n)`;
}

/** Shell commands that write the files which the requests send. */
const PREPARATION = `\
set -eu
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
api=$KOSLI_HOST/api/v2
commit=0123456789abcdef0123456789abcdef01234567
request() { curl -sS -H "Authorization: Bearer $KOSLI_API_TOKEN" "$@"; }
step() {
  printf '%s: ' "$1"
  shift
  case $(request -o "$work/answer" -w '%{http_code}' "$@") in
    2*) echo done ;;
    000) exit 1 ;;
    *) cat "$work/answer" && echo && exit 1 ;;
  esac
}
verdict() {
  case \${1#*'"compliant":'} in
    true*) echo COMPLIANT ;;
    false*) echo NON-COMPLIANT ;;
    *) echo "unknown: $1" ;;
  esac
}

cat >"$work/template.yml" <<'END'
version: 1
trail:
  artifacts:
    - name: app
      attestations:
        - name: unit-tests
          type: generic
END
cat >"$work/policy.yml" <<'END'
_schema: ${SCHEMA_URL}
artifacts:
  provenance:
    required: true
  attestations:
    - name: unit-tests
      type: generic
END
echo "the program" >"$work/app"
echo "12 tests passed" >"$work/tests.log"
fingerprint=$(sha256sum <"$work/app" | cut -c1-64)`;

/** Shell commands that call the API; they use the variables and functions of PREPARATION. */
const REQUESTS = `\
step 'flow with a template' -X PUT "$api/flows/$KOSLI_ORG/template_file" \\
  -F "template_file=@$work/template.yml" --form-string \\
  'data_json={"name": "'"$KOSLI_FLOW"'", "description": "How app is built"}'

step 'trail build-1' -X PUT "$api/trails/$KOSLI_ORG/$KOSLI_FLOW" --form-string \\
  'data_json={"name": "build-1", "description": "The first build"}'

step 'artifact app' -X POST "$api/artifacts/$KOSLI_ORG/$KOSLI_FLOW" -H "Content-Type: application/json" --data '{
  "fingerprint": "'"$fingerprint"'", "filename": "app", "git_commit": "'"$commit"'",
  "build_url": "https://ci.example.com/1", "commit_url": "https://git.example.com/app/'"$commit"'",
  "repo_url": "https://git.example.com/app", "git_commit_info": null,
  "template_reference_name": "app", "trail_name": "build-1"}'

step 'attestation unit-tests, with evidence' \\
  -X POST "$api/attestations/$KOSLI_ORG/$KOSLI_FLOW/trail/build-1/generic" \\
  -F "attachment_file=@$work/tests.log" --form-string \\
  'data_json={"attestation_name": "unit-tests", "artifact_fingerprint": "'"$fingerprint"'",
    "is_compliant": true, "user_data": {"passed": 12}}'

step 'policy tested' -X PUT "$api/policies/$KOSLI_ORG" \\
  -F "policy_file=@$work/policy.yml" --form-string 'payload={"name": "tested"}'

step 'environment with the policy' -X PUT "$api/environments/$KOSLI_ORG" \\
  -H "Content-Type: application/json" --data '{
  "name": "${ENVIRONMENT}", "type": "server", "description": "Where app runs", "policies": ["tested"]}'

step 'report of what runs there' -X PUT "$api/environments/$KOSLI_ORG/${ENVIRONMENT}/report/server" \\
  -H "Content-Type: application/json" --data '{
  "artifacts": [{"digests": {"app": "'"$fingerprint"'"}, "creationTimestamp": '"$(date +%s)"'}]}'

built=$(request "$api/asserts/$KOSLI_ORG/fingerprint/$fingerprint?flow_name=$KOSLI_FLOW")
running=$(request "$api/asserts/$KOSLI_ORG/fingerprint/$fingerprint?environment_name=${ENVIRONMENT}")`;

/** Shell commands that say in one sentence what came of it; the command that explains it follows. */
const CONCLUSION = `\
echo
echo "app is $(verdict "$built") in $KOSLI_FLOW and $(verdict "$running") in ${ENVIRONMENT}:" \\
  "open $KOSLI_HOST/$KOSLI_ORG/environments/${ENVIRONMENT}, and see why with" `;

/** A word of a POSIX shell, quoted where it has to be. */
const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : shellQuote(text));

const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
