// A release through the packaged executable with everything that teams use around it: a control that a policy requires,
// an action that notifies a receiver, a scan that arrives by webhook, the repository's builds and deployments, and
// search.

import { createHmac } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { endReceivers, receiver } from "../notifications/given.ts";
import { createClient, expectStatus } from "./client.ts";
import type { Json } from "./client.ts";
import { inDirectory, run, start } from "./executable.ts";

const test = suite("binary/release");
test.after(endReceivers);

const COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";
const FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const REPO = { id: "4711", name: "acme/web/shop", url: "https://git.example.com/acme/web/shop", provider: "gitlab" };
const INFO = {
  sha1: COMMIT,
  message: "Round",
  author: "Ada <ada@example.com>",
  branch: "main",
  timestamp: 1_700_000_000,
};
const POLICY =
  "_schema: https://example.com/schemas/policy/v1\n" +
  "artifacts:\n  attestations:\n    - type: decision\n      for_control: SDLC-7\n";

test("releases with a control, a policy that requires it, notifications, inbound webhooks and search", () =>
  inDirectory(async (data) => {
    const cli = async (...words: string[]): Promise<string> => {
      const { code, stdout, stderr } = await run([...words, "--data", data]);
      assert.is(code, 0, stderr);
      return stdout.trim();
    };
    const admin = await cli("init", "--org", "acme", "--user", "ops");
    const { received, url, until } = await receiver(200);
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--webhook-allow", "127.0.0.1"]);
    const kosli = createClient(server.url, admin);
    const terraform = createClient(server.url, admin, "terraform");
    const read = (path: string): Promise<any> => expectStatus(kosli.json("GET", path), 200);

    // The control, its policy and the environment. A policy cannot name a control that does not exist.
    const put = () =>
      kosli.form(
        "PUT",
        "/policies/acme",
        "payload",
        { name: "reviewed", description: "", comment: "", type: "env" },
        { part: "policy_file", name: "p.yml", content: POLICY },
      );
    const refused = await expectStatus(put(), 400);
    assert.match(refused.errors.policy_file, "Control 'SDLC-7' does not exist in organization 'acme'");
    await expectStatus(
      terraform.json("POST", "/controls/acme", { identifier: "SDLC-7", name: "Changes are reviewed" }),
      201,
    );
    await expectStatus(kosli.json("POST", "/controls/acme", { identifier: "SDLC-7", name: "Again" }), 409);
    await expectStatus(put(), 201);
    await expectStatus(
      terraform.json("PUT", "/environments/acme", {
        name: "production",
        type: "docker",
        description: "",
        included_environments: null,
        policies: ["reviewed"],
      }),
      201,
    );
    await expectStatus(
      terraform.json("PUT", "/organizations/acme/environments_notifications", {
        name: "alerts",
        type: "env",
        environments: ["production"],
        triggers: ["ON_STARTED_ARTIFACT", "ON_COMPLIANT_ENV"],
        targets: [{ type: "WEBHOOK", webhook: url("127.0.0.1") }],
      }),
      201,
    );

    // The artifact is built, and runs before the control decision.
    await expectStatus(
      kosli.form("PUT", "/flows/acme/template_file", "data_json", { name: "shop", description: "" }),
      201,
    );
    await expectStatus(
      kosli.json("POST", "/artifacts/acme/shop", {
        fingerprint: FINGERPRINT,
        filename: "shop:1",
        git_commit: COMMIT,
        build_url: "https://ci.example.com/1",
        commit_url: `${REPO.url}/-/commit/${COMMIT}`,
        repo_url: REPO.url,
        git_commit_info: INFO,
        repo_info: REPO,
        trail_name: "release-1",
        template_reference_name: "shop",
      }),
      201,
    );
    const report = (status: number) =>
      expectStatus(
        kosli.json("PUT", "/environments/acme/production/report/docker", {
          artifacts: [{ digests: { "shop:1": FINGERPRINT }, creationTimestamp: 1_700_000_100 }],
        }),
        status,
      );
    await report(201);
    const before = await read(`/asserts/acme/fingerprint/${FINGERPRINT}?environment_name=production`);
    const [resolution] = before.policy_evaluations[0].rule_evaluations.find(
      ({ satisfied }: Json) => satisfied === false,
    ).resolutions;
    assert.equal(
      { compliant: before.compliant, type: resolution.type, for_control: resolution.context.for_control },
      { compliant: false, type: "missing_attestation", for_control: "SDLC-7" },
    );

    // The decision makes it compliant. The receiver is notified, and the operator's secret verifies the signature.
    await expectStatus(
      kosli.form("POST", "/attestations/acme/shop/trail/release-1/system", "data_json", {
        attestation_name: "review",
        artifact_fingerprint: FINGERPRINT,
        type_name: "decision",
        control: "SDLC-7",
        attestation_data: { is_compliant: true },
        git_commit_info: INFO,
      }),
      201,
    );
    await report(201);
    await until(() => received.length === 2);
    assert.equal(
      received.map(({ body }) => JSON.parse(body).event_type),
      ["STARTED_ARTIFACT", "COMPLIANT_ENV"],
    );
    const { webhooks } = JSON.parse(await cli("action", "secret", "acme", "1", "--json")) as {
      webhooks: { secret: string }[];
    };
    const secret = webhooks[0]?.secret ?? "";
    for (const { headers, body } of received) {
      const [, at, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers["x-assay-signature"])) ?? [];
      assert.is(createHmac("sha256", secret).update(`${at}.${body}`).digest("hex"), signature);
    }
    await server.wrote(/"subject":"alerts[^"]*".*"outcome":"delivered"/);
    const listed = JSON.parse(await cli("deliveries", "list", "--org", "acme", "--json")) as { deliveries: Json[] };
    assert.equal(
      listed.deliveries.map(({ state }) => state),
      ["delivered", "delivered"],
    );
    const coverage = await read("/controls/acme/SDLC-7/coverage");
    assert.equal(
      {
        covered: coverage.summary.covered,
        total: coverage.summary.total,
        coverage_percent: coverage.summary.coverage_percent,
      },
      { covered: 1, total: 1, coverage_percent: 100 },
    );
    const { decisions } = await read("/controls/acme/SDLC-7/decisions?is_compliant=true");
    assert.equal(
      decisions.map(({ control_version, artifact_fingerprint }: Json) => [control_version, artifact_fingerprint]),
      [[1, FINGERPRINT]],
    );

    // A scan of the same commit arrives by webhook.
    const sonar = JSON.parse(await cli("webhook", "enable", "sonar", "--org", "acme", "--json")) as {
      path: string;
      secret: string;
    };
    const scan = JSON.stringify({
      analysedAt: "2026-01-31T12:00:00+0000",
      revision: COMMIT,
      project: { key: "shop", url: "https://sonar.example.com/dashboard?id=shop" },
      qualityGate: { name: "gate", status: "ERROR", conditions: [] },
      properties: {
        "sonar.analysis.kosli_trail": "release-1",
        "sonar.analysis.kosli_artifact_fingerprint": FINGERPRINT,
      },
    });
    const postScan = (signature: string) =>
      fetch(`${server.url}${sonar.path}`, {
        method: "POST",
        body: scan,
        headers: { "Content-Type": "application/json", "X-Sonar-Webhook-HMAC-SHA256": signature },
      });
    assert.is((await postScan("0".repeat(64))).status, 401);
    assert.is((await postScan(createHmac("sha256", sonar.secret).update(scan).digest("hex"))).status, 200);
    assert.is((await read(`/trails/acme/shop/release-1`)).compliance_state, "NON-COMPLIANT");

    // A feature flag changes.
    const launchDarkly = JSON.parse(await cli("webhook", "enable", "launch-darkly", "--org", "acme", "--json")) as {
      path: string;
      secret: string;
    };
    const change = JSON.stringify({
      titleVerb: "turned on the flag",
      name: "New cart",
      target: { resources: ["proj/shop:env/production:flag/new-cart"] },
    });
    const postFlagChange = (signature: string) =>
      fetch(`${server.url}${launchDarkly.path}`, {
        method: "POST",
        body: change,
        headers: { "Content-Type": "application/json", "x-ld-signature": signature },
      });
    assert.is((await postFlagChange("0".repeat(64))).status, 401);
    assert.is(
      (await postFlagChange(createHmac("sha256", launchDarkly.secret).update(change).digest("hex"))).status,
      200,
    );
    const [flag] = await read("/attestations/acme/launch-darkly-production/trail/new-cart/flag-change");
    assert.is(flag.description, "Someone turned on the flag New cart");

    // Search, builds and deployments find all of it.
    const repo = await read(`/repos/acme/${REPO.name}`);
    assert.equal({ name: repo.name, provider: repo.provider }, { name: REPO.name, provider: "gitlab" });
    assert.is(
      await expectStatus(
        kosli.json("PATCH", `/tags/acme/repo/${repo.id}`, { set_tags: { team: "shop" }, remove_tags: null }),
        200,
      ),
      "OK",
    );
    assert.equal(
      (await read("/repos/acme?tag=team:shop&page=1&per_page=15")).repos.map(({ name }: Json) => name),
      [REPO.name],
    );
    assert.equal((await read(`/builds/acme?repo_name=${encodeURIComponent(REPO.name)}`)).builds.length, 1);
    assert.equal((await read(`/repos/acme/${repo.id}/deployments`)).total_count, 1);
    const statistics = await read(`/repos/acme/${repo.id}/deployment-statistics`);
    assert.equal(
      statistics.environments.map(({ environment_name, deployed_at }: Json) => [environment_name, deployed_at.length]),
      [["production", 1]],
    );
    for (const value of [FINGERPRINT.slice(0, 8), COMMIT.slice(0, 7)]) {
      const { resolved_to, artifacts } = await read(`/search/acme/sha/${value}`);
      assert.equal(
        { type: resolved_to.type, fingerprint: artifacts[0].fingerprint, running_in: artifacts[0].running_in },
        {
          type: value === COMMIT.slice(0, 7) ? "commit" : "fingerprint",
          fingerprint: FINGERPRINT,
          running_in: ["production#2"],
        },
      );
    }
    assert.equal(
      (await expectStatus(kosli.json("GET", "/search/acme/sha/fffff"), 404)).message,
      "No matches for 'fffff'.",
    );
    assert.is(
      await expectStatus(
        kosli.json("PUT", "/organizations/acme/experimental_features", { experimental_features_enabled: false }),
        200,
      ),
      "OK",
    );
    await expectStatus(kosli.json("GET", "/controls/acme/SDLC-7"), 403);
    await server.stop();
  }));

test.run();
