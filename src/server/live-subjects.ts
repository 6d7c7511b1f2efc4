/** What live updates (web/live.ts) follow: trails and environments, for people who may read them. */
import type Koa from "koa";
import { allows } from "../domain/access.ts";
import { sessionExpired } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";
import type { Membership, Principal } from "../http/server-context.ts";
import type { Store } from "../store/index.ts";
import type { LiveGrant, LiveSubject } from "../web/live.ts";

type Parts = {
  store: Store;
  /** The session of a browser; null without one. Counts as a use. */
  sessionOf(ctx: Koa.Context): { holder: { public_id: string }; principal: Principal } | null;
  readMembership(principal: Principal, organization: string): Membership | null;
};

export const liveSubjects = ({ store, sessionOf, readMembership }: Parts) => ({
  /** @throws AppError 401 without a session */
  authorize(ctx: Koa.Context, subjects: readonly LiveSubject[]): LiveGrant {
    const session = sessionOf(ctx);
    if (!session) throw sessionExpired();
    const { principal, holder } = session;
    const [organization = null, ...others] = new Set(subjects.map(({ org }) => org));
    recordForLog(ctx, { principal, organization: others.length === 0 ? organization : null });
    const isOpen = (): boolean => store.sessions.isOpen(holder.public_id);
    return {
      session: holder.public_id,
      isOpen,
      mayRead(subject) {
        const membership = isOpen() ? readMembership(principal, subject.org) : null;
        return membership !== null && allows("trail" in subject ? "trail:read" : "environment:read", membership);
      },
    };
  },
  versionOf(subject: LiveSubject): string | null {
    const organization = store.organizations.find(subject.org);
    if (!organization) return null;
    if ("environment" in subject) return store.environments.versionOf(organization.id, subject.environment);
    const flow = store.flows.find(organization.id, subject.flow);
    return flow && store.trails.versionOf(flow.id, subject.trail);
  },
});
