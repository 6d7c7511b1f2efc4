/**
 * `assay dev`: a server for one developer, set up by itself. Its key lies in the data directory, so that every start
 * prints the same; it opens nothing that this directory does not hold anyway. Never used on data that somebody else set
 * up.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newSecret } from "../../server/app.ts";
import { readToken } from "../../auth/first-admin.ts";
import type { Instance } from "../../server/instance.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import { change } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure } from "../framework.ts";
import type { Command } from "../framework.ts";
import { firstPlan } from "./init.ts";
import { operatorOf } from "../operator-changes.ts";
import { addresses, applyWhole, runServer } from "./serve.ts";
import type { Announcement } from "./serve.ts";

const ORGANIZATION = "acme";
const USER = "dev";
const FLOW = "first-flow";
const KEY_FILE = "dev-key";
const DESCRIPTION = "assay dev";

export const dev: Command = {
  name: "dev",
  summary: "Run a server to develop against, set up by itself",
  usage: "[OPTIONS]",
  details: [
    "Like assay serve, but the data directory is .assay-dev and the log level warn unless said otherwise, answers are checked",
    `against the API document, and the first start creates the organization ${ORGANIZATION} with the admin ${USER} and a key. Prints the`,
    "key, the settings of the Kosli CLI, and a block for a shell that records a first attestation and reports an environment.",
  ],
  options: {},
  takesConfig: true,
  configuration: { required: ["data"], defaults: { data: ".assay-dev", logLevel: "warn" }, complete: true },
  run(args, io) {
    let key = "";
    return runServer(args, io, {
      configuration: dev.configuration,
      checkResponses: true,
      setUp: (data, directory) => {
        key = setUp(data, directory);
      },
      announce: (instance) => announce(instance, key),
    });
  },
};

/** Makes the developer's organization, user and key where they are missing. @returns the text of a key that works. */
function setUp(data: Data, directory: string): string {
  const { store } = data;
  const file = join(directory, KEY_FILE);
  const user = store.users.find(USER);
  if (!user && (store.users.count() > 0 || store.organizations.list().length > 0)) {
    throw commandFailure(
      `${directory} was set up for others: serve it with assay serve, or give assay dev a directory of its own with --data`,
    );
  }
  const kept = readToken(file);
  const known = kept === null ? null : store.apiKeys.find(keyDigest(kept));
  if (kept !== null && known && store.apiKeys.isActive(known)) return kept;

  // Written before it is stored: a start that dies in between leaves a file with an unknown key, which the next
  // replaces.
  const key = newSecret();
  writeFileSync(`${file}.new`, `${key}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  if (!user)
    applyWhole(
      data,
      firstPlan(
        { org: ORGANIZATION, user: USER, email: null, displayName: "Developer" },
        { description: DESCRIPTION, text: key },
      ),
      KEY_FILE,
      "dev",
    );
  else {
    change(data, () =>
      operatorOf(store, "dev").createKey(
        { userId: user.id, name: user.name },
        { key, description: DESCRIPTION, expiresAt: 0 },
      ),
    );
  }
  return key;
}

function announce(instance: Instance, key: string): Announcement {
  const { text, fields } = addresses(instance);
  const environment = { KOSLI_HOST: instance.baseUrl, KOSLI_ORG: ORGANIZATION, KOSLI_API_TOKEN: key, KOSLI_FLOW: FLOW };
  const script = firstAttestation(environment);
  return {
    text:
      `${text}organization: ${ORGANIZATION}\nAPI key: ${key}\n\n` +
      "The four lines that begin with export set up the Kosli CLI too. Paste all of this into a shell to record a first\n" +
      `attestation, to report what runs in an environment, and to ask for the verdicts:\n\n${script}\n`,
    fields: { ...fields, organization: ORGANIZATION, api_key: key, environment, script },
  };
}

/**
 * Commands for a POSIX shell with curl: a flow with a template, a trail, an artifact, an attestation with evidence, the
 * verdict on the artifact, an environment with a policy in which it runs, and the verdict there. They may be pasted
 * again: everything but the report of the artifact and the attestation is an update.
 */
function firstAttestation(environment: Readonly<Record<string, string>>): string {
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}=${quoted(value)}`);
  return `${exports.join("\n")}

work=$(mktemp -d)
api=$KOSLI_HOST/api/v2
commit=0123456789abcdef0123456789abcdef01234567
call() { curl -sS -H "Authorization: Bearer $KOSLI_API_TOKEN" "$@"; echo; }

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
_schema: https://assay.example.com/schemas/policy/v1
artifacts:
  provenance:
    required: true
  attestations:
    - name: unit-tests
      type: generic
END
echo "the program" >"$work/app"
echo "12 tests passed" >"$work/tests.log"
fingerprint=$(sha256sum <"$work/app" | cut -c1-64)

call -X PUT "$api/flows/$KOSLI_ORG/template_file" -F "template_file=@$work/template.yml" --form-string 'data_json={"name": "'"$KOSLI_FLOW"'", "description": "How app is built"}'

call -X PUT "$api/trails/$KOSLI_ORG/$KOSLI_FLOW" --form-string 'data_json={"name": "build-1", "description": "The first build"}'

call -X POST "$api/artifacts/$KOSLI_ORG/$KOSLI_FLOW" -H "Content-Type: application/json" --data '{"fingerprint": "'"$fingerprint"'", "filename": "app", "git_commit": "'"$commit"'", "build_url": "https://ci.example.com/1", "commit_url": "https://git.example.com/app/'"$commit"'", "repo_url": "https://git.example.com/app", "git_commit_info": null, "template_reference_name": "app", "trail_name": "build-1"}'

call -X POST "$api/attestations/$KOSLI_ORG/$KOSLI_FLOW/trail/build-1/generic" -F "attachment_file=@$work/tests.log" --form-string 'data_json={"attestation_name": "unit-tests", "artifact_fingerprint": "'"$fingerprint"'", "is_compliant": true, "user_data": {"passed": 12}}'

call "$api/asserts/$KOSLI_ORG/fingerprint/$fingerprint?flow_name=$KOSLI_FLOW"

call -X PUT "$api/policies/$KOSLI_ORG" -F "policy_file=@$work/policy.yml" --form-string 'payload={"name": "tested"}' >"$work/policy.json"

call -X PUT "$api/environments/$KOSLI_ORG" -H "Content-Type: application/json" --data '{"name": "production", "type": "server", "description": "Where app runs", "policies": ["tested"]}'

call -X PUT "$api/environments/$KOSLI_ORG/production/report/server" -H "Content-Type: application/json" --data '{"artifacts": [{"digests": {"app": "'"$fingerprint"'"}, "creationTimestamp": '"$(date +%s)"'}]}'

call "$api/asserts/$KOSLI_ORG/fingerprint/$fingerprint?environment_name=production"

rm -r "$work"`;
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
