/** Who the operator is, what only the operator may do, and what even the operator may not. */
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations, operatorOperations } from "../../../src/api/index.ts";
import type { AssayOperation } from "../../../src/api/context.ts";
import { withOperator } from "../../../src/cli/operator.ts";
import { ROLES, isOrgPermission, operatorHolds } from "../../../src/domain/access.ts";
import { AppError } from "../../../src/errors.ts";
import { createCallers } from "../../../src/http/in-process.ts";
import type { CallContext, Principal } from "../../../src/http/server-context.ts";
import { cli, inDirectory, look } from "../../cli/in-process.ts";
import { startServer } from "../../given.ts";
import { signInWithRole } from "../../web/browser.ts";

const test = suite("api/operator");

const DENIED = "You don't have permission to access this resource";
const NO_REPORTS = "The operator reports no evidence and makes no decisions: use an API key of the organization";

/** The code and message of a refusal; null if the call was answered. Any other error is a bug. */
async function refusalOf(call: Promise<unknown>): Promise<{ code: string; message: string } | null> {
  try {
    await call;
    return null;
  } catch (error) {
    if (error instanceof AppError) return { code: error.code, message: error.message };
    throw error;
  }
}

const inputOf = ({ example }: AssayOperation) =>
  ({
    params: example.params ?? {},
    query: example.query ?? {},
    ...(example.body === undefined ? {} : { body: example.body }),
    ...(example.file === undefined ? {} : { file: { filename: "file", text: example.file } }),
  }) as never;

test("a session of an admin may do nothing that only the operator may", async () => {
  const server = await startServer();
  try {
    const { org } = server.given.org();
    for (const role of ROLES) {
      const browser = await signInWithRole(server, org, role);
      const csrf = await browser.readApiCsrfToken();
      for (const { method, path, example, body, id } of operatorOperations) {
        const at = path.replace(/\{(\w+)\}/g, (_, name: string) =>
          name === "org" ? org : (example.params?.[name] ?? ""),
        );
        const answer = await browser.send(method, `/api/v2${at}`, {
          headers: { "X-CSRF-Token": csrf, "Content-Type": "application/json" },
          ...(body.kind === "none" ? {} : { body: JSON.stringify(example.body) }),
        });
        assert.equal(
          { status: answer.status, text: JSON.parse(answer.text) },
          { status: 403, text: { message: DENIED } },
          id,
        );
      }
    }
  } finally {
    await server.stop();
  }
});

/** What a page has: a principal whom the server authenticated, and an organization in which they are admin. */
function pageOf(kind: Principal["kind"]) {
  const server = {
    readMembership: () => ({ organizationId: 1, role: "admin", isPublic: false, features: ["controls"] }),
    ensureWritable: () => undefined,
    createContext: () => assert.unreachable("a refused call has no context"),
  } as unknown as CallContext<never>;
  return createCallers(server)({
    principal: { kind, id: 1, publicId: "id", name: "ada", displayName: "Ada", keyPublicId: "key" },
    requestId: "request",
    baseUrl: "http://localhost",
    progress: { enter() {}, requireRunning() {}, onOver() {} },
    asker: "page",
  });
}

test("a page is refused by the kind of its principal, and shows nothing of it", async () => {
  for (const kind of ["user", "service_account"] as const)
    for (const operation of operatorOperations) {
      const page = pageOf(kind);
      const refusal = await refusalOf(page.call(operation, inputOf(operation)));
      assert.equal(refusal, { code: "forbidden", message: DENIED }, operation.id);
      assert.is(page.permits(operation, "acme"), false, operation.id);
    }
});

const given = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ada"]);
    await body(data);
  });
const rowsOf = (data: string): number =>
  look(data, (_, db) => db.prepare<[], number>("SELECT count(*) FROM audit_log").pluck().get() ?? -1);

test("the operator reports no evidence and makes no decision, and nothing is stored", () =>
  given(async (data) => {
    const before = rowsOf(data);
    const reports = operations.filter(({ permission }) => isOrgPermission(permission) && !operatorHolds(permission));
    assert.ok(reports.length > 15);
    await withOperator(data, { command: "test" }, async ({ call }) => {
      for (const operation of reports)
        assert.equal(
          await refusalOf(call(operation, inputOf(operation))),
          { code: "forbidden", message: NO_REPORTS },
          operation.id,
        );
    });
    assert.is(rowsOf(data), before);
  }));

test("the operator may read and configure everything else, in every organization", () =>
  given(async (data) => {
    const others = operations.filter(
      ({ permission, status }) => isOrgPermission(permission) && operatorHolds(permission) && status !== "removed",
    );
    await withOperator(data, { command: "test" }, async ({ call, open }) => {
      for (const operation of others) {
        const isFile = Object.values(operation.responses).some((one) => one.isDownload ?? one.isStream);
        const refusal = await refusalOf((isFile ? open : call)(operation, inputOf(operation)));
        assert.is.not(refusal?.message, NO_REPORTS, operation.id);
        assert.is.not(refusal?.message, DENIED, operation.id);
      }
      const [operation] = others as [AssayOperation];
      const elsewhere = { ...(inputOf(operation) as object), params: { org: "nope" } };
      assert.equal(await refusalOf(call(operation, elsewhere as never)), {
        code: "not_found",
        message: "There is no organization 'nope'",
      });
    });
  }));

test("what is about the caller's own account is refused to the operator, who has none", () =>
  given(async (data) => {
    const own = operations.filter(({ path }) => path.startsWith("/user/") || path === "/principal");
    assert.ok(own.length > 5);
    await withOperator(data, { command: "test" }, async ({ call }) => {
      for (const operation of own)
        assert.equal(
          await refusalOf(call(operation, inputOf(operation))),
          { code: "forbidden", message: "The operator has no account: this is for users with a key" },
          operation.id,
        );
    });
  }));

test("calls in one transaction leave nothing behind when the last one is refused", () =>
  given(async (data) => {
    const before = rowsOf(data);
    const create = operatorOperations.find(({ id }) => id === "create_user") as AssayOperation;
    const refusal = await withOperator(data, { command: "test" }, ({ call, atomically }) =>
      refusalOf(
        atomically(async () => {
          await call(create, { body: { name: "bob" } as never });
          await call(create, { body: { name: "ada" } as never });
        }),
      ),
    );
    assert.is(refusal?.code, "invalid");
    assert.is(rowsOf(data), before);
    look(data, (store) => assert.is(store.users.find("bob"), null));
  }));

test("the audit entry names the operator and the command, the history of memberships the user of the system", () =>
  given(async (data) => {
    const create = operations.find(({ id }) => id === "create_service_account") as AssayOperation;
    await withOperator(data, { command: "a command" }, ({ call }) =>
      call(create, { params: { org: "acme" }, body: { name: "ci" } as never }),
    );
    look(data, (store, db) => {
      const entry = db
        .prepare<[], object>(
          `SELECT actor_kind AS kind, actor_name AS name, operation, event, target FROM audit_log
           ORDER BY id DESC LIMIT 1`,
        )
        .get();
      assert.equal(entry, {
        kind: "operator",
        name: "operator",
        operation: "a command",
        event: "service_account.created",
        target: "/api/v2/service-accounts/acme",
      });
      assert.match(store.operatorName(), /^operator \(.+\)$/);
    });
  }));

test.run();
