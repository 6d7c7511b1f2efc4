/** What to look at in the demonstration, in order: the pages, and commands that explain the same. */
import type { Store } from "../store/index.ts";
import { linksFor } from "../web/page/links.ts";
import { ORG } from "./acme/people.ts";
import { imageFingerprint } from "./acme/releases.ts";

/** @property explain arguments of `assay explain`, without --org and --data; null where there is nothing to explain */
type TourStop = { title: string; url: string; explain: string | null };

const ENVIRONMENT = "production-eu";
/**
 * Snapshots of the incident: in the first one a scan has found a vulnerability in what was running, and after the last
 * one the fix has replaced it.
 */
const INCIDENT = { first: 169, last: 171 };
const VULNERABLE = "acme/backend-api:2.40.0";
const FAILING = "acme/backend-api:2.41.0";

/** Enough of a fingerprint to find the artifact in a snapshot. */
const short = (image: string): string => imageFingerprint(image).slice(0, 7);

/** Whether the store holds the demonstration. */
export function isDemo({ organizations, environments }: Store): boolean {
  const organization = organizations.find(ORG);
  const environment = organization && environments.find(organization.id, ENVIRONMENT);
  return environment !== null && environment.snapshot_count > INCIDENT.last;
}

/** @param baseUrl public address of the server, without a trailing slash */
export function tourOf(baseUrl: string): TourStop[] {
  const to = linksFor(`${baseUrl}/`, ORG);
  const { first, last } = INCIDENT;
  return [
    { title: "What runs in all environments, and what fails there now", url: to.organization(), explain: null },
    {
      title: `Why ${FAILING} is NON-COMPLIANT in ${ENVIRONMENT}: it was deployed with a vulnerability`,
      url: to.whyArtifact(ENVIRONMENT, -1, imageFingerprint(FAILING)),
      explain: `${ENVIRONMENT} ${short(FAILING)}`,
    },
    {
      title: `An incident two weeks ago: a scan found a vulnerability in ${VULNERABLE} while that was running`,
      url: to.whyArtifact(ENVIRONMENT, first, imageFingerprint(VULNERABLE)),
      explain: `${ENVIRONMENT}#${first} ${short(VULNERABLE)}`,
    },
    {
      title: "Its end, eight hours later: what the fix replaced",
      url: to.environmentDiff(`${ENVIRONMENT}#${last}`, `${ENVIRONMENT}#${last + 1}`),
      explain: `${ENVIRONMENT}#${last + 1}`,
    },
    {
      title: "The release that fixed it, with its evidence",
      url: to.trail("backend-api", "release-2.40.1"),
      explain: null,
    },
    { title: "The policy behind these verdicts, and its versions", url: to.policy("prod-baseline"), explain: null },
    { title: "A control, and the decisions that auditors ask for", url: to.control("SEC-REL-4"), explain: null },
  ];
}
