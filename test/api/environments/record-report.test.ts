/** Reports to environments that change meanwhile, with a store in memory and a recorder that the test controls. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { contextFactory } from "../../../src/api/context.ts";
import type { OperationContextParts, Recorder } from "../../../src/api/context.ts";
import { recordReport } from "../../../src/api/environments/record-report.ts";
import { AppError } from "../../../src/errors.ts";
import { runtime } from "../../runtime.ts";
import { opened } from "../../store/given.ts";

const test = suite("api/environments/record-report");

function setUp(report: Recorder["report"]) {
  const database = opened();
  const { store, organizationId, clock } = database;
  const organization = store.organizations.find("acme") as NonNullable<ReturnType<typeof store.organizations.find>>;
  const recorder: Recorder = { report, recordWithin: () => null };
  const { createContext } = contextFactory({ store, recorder, now: () => clock.at } as OperationContextParts);
  const context = createContext({
    requestId: "r",
    accessVersion: null,
    principal: { kind: "user", id: 1, publicId: "ada-id", name: "ada", displayName: "Ada", keyPublicId: "k" },
    membership: { organizationId, role: "admin", isPublic: false, features: [], organization },
    operationId: "k8s_report",
    event: "environment.reported",
    path: "/x",
    baseUrl: "http://assay.test",
  });
  const given = runtime(database);
  const send = (confirm = () => context): Promise<unknown> =>
    recordReport(context, confirm, { name: "prod", type: "K8S", bytes: Buffer.from("{}") }).catch((error: unknown) =>
      error instanceof AppError ? [error.code, error.message] : error,
    );
  const prod = (): number => given.environment(organizationId, "prod");
  return { store, prod, send };
}

test("a report to an environment that was archived meanwhile is a 404, and a 409 if another has its name", async () => {
  let between = (): void => undefined;
  const { store, prod, send } = setUp(async ({ environment }) => {
    environment();
    between();
    return { planned: false, index: null };
  });
  const first = prod();
  between = () => store.environments.archive(store.environments.get(first));
  assert.equal(await send(), ["not_found", "Environment named 'prod' has been archived for organization 'acme'"]);
  const second = prod();
  between = () => {
    store.environments.rename(store.environments.get(second), "old");
    prod();
  };
  assert.is(((await send()) as [string])[0], "conflict");
});

test("a report is refused inside the write when its rights ended or the request was given up", async () => {
  const { prod, send } = setUp(async ({ environment }) => ({ planned: true, index: environment().snapshot_count }));
  prod();
  assert.equal(await send(), { index: 0 });
  const givenUp = new Error("given up");
  assert.is(
    await send(() => {
      throw givenUp;
    }),
    givenUp,
  );
});

test.run();
