/** The audit binder of a control, an environment or a flow: what an auditor asks about a period, in one document. */
import { Type } from "typebox";
import { allows } from "../../domain/access.ts";
import type { OrgPermission } from "../../domain/access.ts";
import { forbidden, invalid } from "../../errors.ts";
import { composeBinder, describeBinder } from "../../contract/binder/compose.ts";
import { openBinder } from "../../contract/binder/scope.ts";
import type { BinderScope } from "../../contract/binder/scope.ts";
import { AuditBinder } from "../../contract/binder/shapes.ts";
import { formatAuditBinderName } from "../../domain/names.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message } from "../../http/schema.ts";
import { BINDER_KINDS } from "../../store/environments/history/binder-scope.ts";
import type { BinderKind, BinderSubject } from "../../store/environments/history/binder-scope.ts";
import { largeRead, operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { PACKAGE_RESPONSE, openPackage } from "../flows/audit-packages.ts";
import { OrgPath } from "../paths.ts";
import { PeriodWindow, parsePeriod } from "../time-window.ts";

/** Hours of the period before its end, unless the query says when it starts: a quarter. */
const DEFAULT_HOURS = 90 * 24;
/** The permission of each kind's own read. */
const PERMISSIONS: Record<BinderKind, OrgPermission> = {
  control: "control:read",
  environment: "environment:read",
  flow: "flow:read",
};

const Name = (kind: string) =>
  Type.Optional(Type.String({ description: `${kind}; exactly one of the three is given` }));
const FILTERS = {
  control: Name("Identifier of a control"),
  environment: Name("Name of an environment; a logical one stands for its members, too"),
  flow: Name("Name of a flow"),
  ...PeriodWindow(DEFAULT_HOURS),
};
export type BinderQuery = { [Name in keyof typeof FILTERS]?: string | undefined };

/**
 * What a request is about. @throws AppError 400 on the filters and times; 403; 404
 */
export function readBinderScope(
  context: Pick<ReadingContext, "store" | "organization" | "role" | "now">,
  query: BinderQuery,
): BinderScope {
  const { organization, role } = context;
  const kind = kindOf(query);
  const now = context.now();
  const period = parsePeriod(query, { now, hours: DEFAULT_HOURS });
  const to = Math.min(period.to, now);
  const from = query.from ? period.from : to - DEFAULT_HOURS * 3_600;
  if (from > now) throw invalid({ from: `Input should not be in the future [input: ${query.from ?? ""}]` });
  const may = (permission: OrgPermission): boolean =>
    allows(permission, { role, isPublic: organization.is_public === 1 });
  if (!may(PERMISSIONS[kind])) throw forbidden();
  if (kind === "control" && organization.controls_enabled === 0) throw forbidden();
  return {
    subject: findSubject(context, kind, query[kind] ?? ""),
    from,
    to,
    now,
    seesPeople: may("membership_audit:read"),
  };
}

/** An empty text counts as absent, as a form sends it. @throws AppError invalid */
function kindOf(query: BinderQuery): BinderKind {
  const given = BINDER_KINDS.filter((kind) => query[kind]);
  const [kind] = given;
  if (kind && given.length === 1) return kind;
  const problem = "Exactly one of control, environment and flow is required";
  const fields = kind ? given : BINDER_KINDS;
  throw invalid(Object.fromEntries(fields.map((field) => [field, `${problem} [input: ${query[field] ?? ""}]`])));
}

function findSubject(
  { store, organization }: Pick<ReadingContext, "store" | "organization">,
  kind: BinderKind,
  name: string,
): BinderSubject {
  if (kind === "environment") return { kind, id: store.environments.require(organization, name).id };
  if (kind === "flow") return { kind, id: store.flows.require(organization, name).id };
  const { id, identifier } = store.controls.require(organization, name);
  return { kind, id, identifier };
}

export const getAuditBinder = largeRead({
  id: "get_audit_binder",
  origin: "assay",
  method: "GET",
  path: "/audit-binder/{org}",
  tag: "Audit Binders",
  summary: "Read the audit binder of a control, an environment or a flow",
  description:
    "What an auditor asks about a period, in one document: a paragraph to quote, figures, what is missing, " +
    "decisions, verdicts or trails, where decisions were required, allowlist entries, policies in force, who " +
    "changed what, and an index of the evidence. Everything is read at one moment, from stored verdicts and facts. " +
    "Changes of members, keys and records are for those who may read the audit log.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...FILTERS,
    limit: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000, description: "Entries of each list at most; without it, all" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The binder", schema: AuditBinder },
    404: { description: "No such control, environment or flow", schema: Message },
  },
  example: { params: { org: "acme" }, query: { control: "SDLC-7", from: "90days" } },
  // The reader thread has neither a clock nor a principal.
  prepare: async (context, { query }) => readBinderScope(context, query),
  // Every start and decision of the period is counted.
  isLarge: () => true,
  handle: (context, { query }, scope) => ({
    status: 200,
    body: composeBinder(context, scope, query.limit ?? null).document,
  }),
});

export const downloadAuditBinder = operation({
  id: "download_audit_binder",
  origin: "assay",
  method: "GET",
  path: "/audit-binder/{org}/package",
  tag: "Audit Binders",
  summary: "Download an audit binder with its evidence",
  description:
    "The binder as a package: a gzipped tar archive with one directory. It has the document as `binder.json`, every " +
    "attestation in its scope, the policies in force with their texts, controls and custom types, and the attached " +
    "files. Verify it with `sha256sum --check SHA256SUMS`. The same records give the same bytes for a period that is " +
    "over. A download that fails midway is truncated.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed(FILTERS),
  body: NO_BODY,
  responses: {
    200: PACKAGE_RESPONSE,
    404: { description: "No such control, environment or flow", schema: Message },
  },
  example: { params: { org: "acme" }, query: { control: "SDLC-7", from: "90days" } },
  handle(context, { query }) {
    const scope = readBinderScope(context, query);
    const { key } = openBinder(context, scope);
    const { now, seesPeople, from, to } = scope;
    const name = formatAuditBinderName({ name: describeBinder(context, scope).name, from, to });
    return {
      status: 200,
      stream: {
        contentType: "application/gzip",
        filename: `${name}.tar.gz`,
        open: (gone) => openPackage(context, { kind: "binder", key, now, seesPeople }, gone),
      },
    };
  },
});
