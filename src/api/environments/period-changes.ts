/** What happened in an organization during a period, as JSON and as an Atom feed. */
import { Readable } from "node:stream";
import { Type } from "typebox";
import { allows } from "../../domain/access.ts";
import { CHANGE_KINDS, PEOPLE_KINDS } from "../../domain/snapshot/period-changes.ts";
import { forbidden } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, OneOf, Repeated } from "../../http/schema.ts";
import { ATOM_TYPE, renderAtom } from "../../contract/changes/atom.ts";
import { gatherChanges, isLargePeriod } from "../../contract/changes/gather.ts";
import { INLINE } from "../../contract/changes/scope.ts";
import type { ChangeScope } from "../../contract/changes/scope.ts";
import { presentChanges } from "../../contract/changes/present.ts";
import { ChangeList } from "../../contract/changes/shapes.ts";
import { largeRead, operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { definePaging, formatQuery } from "../paging.ts";
import { OrgPath } from "../paths.ts";
import { PeriodWindow, parsePeriod } from "../time-window.ts";

const PAGES = definePaging({ perPage: 50, maxPerPage: 200 });
/** Hours of the period before its end, unless the query says when it starts. */
const DEFAULT_HOURS = 24;

/** Of the feed, which readers ask for now and then. */
const FEED_HOURS = 7 * 24;
const FEED_ENTRIES = 100;

const FILTERS = {
  environment: Type.Optional(
    Type.String({
      description: "Name of an environment: only what happened in it; a logical one stands for its members, too",
    }),
  ),
  kinds: Repeated(OneOf(CHANGE_KINDS), { description: "Changes of any of these kinds; all without it" }),
};
type Filters = {
  from?: string | undefined;
  to?: string | undefined;
  environment?: string | undefined;
  kinds?: readonly (typeof CHANGE_KINDS)[number][] | undefined;
};

/**
 * Each change stands under the permission of its own read.
 * @throws AppError 400 on the times; 403 where only kinds are asked for that the role may not read
 */
function readScope({ role, organization, ...context }: ReadingContext, query: Filters, hours: number): ChangeScope {
  const now = context.now();
  const { from, to } = parsePeriod(query, { now, hours });
  const seesPeople = allows("membership_audit:read", { role, isPublic: organization.is_public === 1 });
  if (!seesPeople && query.kinds?.some((kind) => PEOPLE_KINDS.includes(kind))) throw forbidden();
  return { from, to, now, environment: query.environment || null, seesPeople };
}

export const listChanges = largeRead({
  id: "list_changes",
  origin: "assay",
  method: "GET",
  path: "/changes/{org}",
  tag: "Changes",
  summary: "List what changed in a period",
  description:
    "What happened in the environments and in the organization, newest first, in pages: verdicts that turned with " +
    "their causes, upgrades with commits and pull requests, starts, exits, scaling, policies, allowlist entries, " +
    "environments that are no longer reported, and, for those who may read the audit log, members and keys. Without " +
    "`environment`, logical environments are left out: their members have the changes. Archived environments are " +
    "left out.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({ ...PAGES.query, ...PeriodWindow(DEFAULT_HOURS), ...FILTERS }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: ChangeList },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme" }, query: { from: "12hours", environment: "production" } },
  // The reader thread has neither a clock nor a principal.
  prepare: async (context, { query }) => readScope(context, query, DEFAULT_HOURS),
  isLarge: (context, _input, scope) => isLargePeriod(context, scope),
  handle: (context, { query }, scope) => ({
    status: 200,
    body: presentChanges(
      context,
      { gathered: gatherChanges(context, scope), scope },
      { kinds: query.kinds ?? null, page: PAGES.window(query) },
    ),
  }),
});

export const getChangesFeed = operation({
  id: "get_changes_feed",
  origin: "assay",
  method: "GET",
  path: "/changes/{org}/atom",
  tag: "Changes",
  summary: "Subscribe to what changed",
  description:
    `The newest ${FEED_ENTRIES} changes of the last ${FEED_HOURS / 24} days as an Atom feed, for feed readers. They ` +
    "send a key as the user name of HTTP basic authentication, with any password: best that of a service account " +
    "with the role of a reader. A key in the address is not accepted. No cache may keep the feed.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed(FILTERS),
  body: NO_BODY,
  responses: {
    200: { description: "The feed", schema: Type.String(), contentType: "application/atom+xml", isStream: true },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme" }, query: { kinds: "verdict,policy" } },
  handle(context, { query }) {
    const { organization, urls } = context;
    const scope = readScope(context, query, FEED_HOURS);
    const page = { page: 1, perPage: FEED_ENTRIES, offset: 0 };
    const gathered = gatherChanges(context, scope, INLINE);
    const changes = presentChanges(context, { gathered, scope }, { kinds: query.kinds ?? null, page });
    const filter = formatQuery(query, {});
    const feed = renderAtom({
      organization: { publicId: organization.public_id, name: organization.name, createdAt: organization.created_at },
      links: { self: urls.changesFeed(organization.name, filter), page: urls.changesPage(organization.name) },
      filter,
      changes,
    });
    return {
      status: 200,
      stream: {
        contentType: ATOM_TYPE,
        filename: `${organization.name}-changes.atom`,
        isNeverKept: true,
        open: () => Readable.from([Buffer.from(feed)]),
      },
    };
  },
});
