/** Login sessions of all users. */
import { Type } from "typebox";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, named } from "../../http/schema.ts";
import type { SessionRow } from "../../store/accounts/sessions.ts";
import { changesOf } from "../changes.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { OPERATOR } from "./operator.ts";
import { NO_USER, requireServerUser } from "./users.ts";

const ServerSession = named(
  "ServerSession",
  Closed({
    id: Type.String(),
    user: Type.String({ description: "Login name" }),
    method: Type.String({ description: "How the user signed in" }),
    address: Type.String(),
    user_agent: Type.String(),
    created_at: Type.Number({ description: "Epoch seconds" }),
    last_used_at: Type.Number({ description: "Epoch seconds, up to a minute old" }),
    expires_at: Type.Number({ description: "Epoch seconds" }),
  }),
);

const present = ({ store }: ReadingContext, row: SessionRow) => ({
  id: row.public_id,
  user: store.users.get(row.user_id).name,
  method: row.method,
  address: row.address,
  user_agent: row.user_agent,
  created_at: row.created_at,
  last_used_at: row.last_used_at,
  expires_at: row.expires_at,
});

const OfUser = Closed({ user: Type.Optional(Type.String({ description: "Login name; absent: of all users" })) });

export const listSessions = operation({
  ...OPERATOR,
  id: "list_sessions",
  method: "GET",
  path: "/operator/sessions",
  summary: "List login sessions",
  description: "Those that are open, of one user or of all.",
  audit: null,
  params: Closed({}),
  query: OfUser,
  body: NO_BODY,
  responses: { 200: { description: "The open sessions", schema: Type.Array(ServerSession) }, 404: NO_USER },
  example: { query: { user: "ada" } },
  handle(context, { query }) {
    const userId = query.user === undefined ? null : requireServerUser(context, query.user).id;
    return { status: 200, body: context.store.sessions.list(userId).map((row) => present(context, row)) };
  },
});

const EndedSessions = named("EndedSessions", Closed({ ended_sessions: Type.Integer() }));

export const endUserSession = operation({
  ...OPERATOR,
  id: "end_session",
  method: "DELETE",
  path: "/operator/sessions/{session_id}",
  summary: "End a login session",
  description: "It ends with its next request. A user who is still allowed to can sign in again.",
  audit: "session.ended",
  params: Closed({ session_id: Type.String() }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Ended", schema: EndedSessions },
    404: { description: "No such open session", schema: Message },
  },
  example: { params: { session_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" } },
  handle(context, { params: { session_id: id } }) {
    const { store } = context;
    const session = store.sessions.find(id);
    if (!session)
      throw notFound(`there is no open session ${JSON.stringify(id.slice(0, 100))}; see assay session list`);
    const ended = Number(changesOf(context).endSession(store.users.get(session.user_id), id));
    return { status: 200, body: { ended_sessions: ended }, unaudited: true };
  },
});

export const endUserSessions = operation({
  ...OPERATOR,
  id: "end_sessions",
  method: "DELETE",
  path: "/operator/sessions",
  summary: "End all login sessions, or those of a user",
  description: "They end with their next request. Users who are still allowed to can sign in again.",
  audit: "session.all_ended",
  params: Closed({}),
  query: OfUser,
  body: NO_BODY,
  responses: { 200: { description: "Ended", schema: EndedSessions }, 404: NO_USER },
  example: { query: { user: "ada" } },
  handle(context, { query }) {
    const { store } = context;
    const users =
      query.user === undefined
        ? [...new Set(store.sessions.list().map(({ user_id }) => user_id))].map(store.users.get)
        : [requireServerUser(context, query.user)];
    const changes = changesOf(context);
    const ended = users.reduce((sum, user) => sum + changes.endSessions(user), 0);
    return { status: 200, body: { ended_sessions: ended }, unaudited: true };
  },
});
