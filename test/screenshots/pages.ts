/** All pages in all their states, as people see them: name -> address in the story and who looks. */
import { imageFingerprint } from "../../src/demo/acme/releases.ts";
import { LONG_NAME } from "../story/edge.ts";
import { ADMIN } from "../story/story.ts";
import { OPENED, refuseSetup, THEN } from "./steps.ts";
import type { Step } from "./steps.ts";

/** Reads from the API what only the server knows, such as an id. */
export type Read = (path: string) => Promise<any>;
type Path = string | ((read: Read) => Promise<string>);
/**
 * @property as user that is signed in; null for nobody, and by default the administrator
 * @property step what is done on the page before its picture is made
 * @property isLarge whether it needs the part of the story that has 10,000 of everything
 * @property isBefore whether the server has no users yet
 */
export type PhotographedPage = {
  name: string;
  path: Path;
  as?: string | null;
  step?: Step;
  isLarge?: boolean;
  isBefore?: boolean;
};

const backend = imageFingerprint("acme/backend-api:2.41.0");
const TRAIL = "/acme/flows/backend-api/trails/release-2.41.0";

/** The trail with the drawer of the attestation open. */
const drawer =
  (flow: string, trail: string, name: string, org = "acme"): Path =>
  async (read) => {
    const { data } = await read(`/attestations/${org}/${flow}?per_page=500`);
    const found = data.find((one: any) => one.trail_name === trail && one.attestation_name === name);
    if (!found) throw new Error(`The story has no attestation '${name}' in ${org}/${flow}/${trail}`);
    return `/${org}/flows/${flow}/trails/${trail}?attestation_id=${found.attestation_id}`;
  };

const firstRepo: Path = async (read) => `/acme/repos/${(await read("/repos/acme")).repos[0].id}`;
const below =
  (path: Path, query: string): Path =>
  async (read) =>
    `${typeof path === "string" ? path : await path(read)}${query}`;

const tabs = (name: string, path: Path, all: readonly string[]): PhotographedPage[] =>
  all.map((tab) => ({ name: `${name}-${tab}`, path: below(path, `?tab=${tab}`) }));

/** The explanation of an artifact that runs in the latest snapshot. */
const why = (environment: string, image: string): Path =>
  `/acme/why?environment=${environment}&snapshot=-1&fingerprint=${imageFingerprint(image)}`;

const edgeWhy: Path = async (read) => {
  const { snapshot } = await read("/explanations/edge/environments/markup/-1");
  const found = snapshot.artifacts.find((one: any) => one.name.length === 256);
  if (!found) throw new Error("The story has no artifact with a long name: tell one to 'markup' in test/story/");
  return `/edge/why?environment=markup&snapshot=1&fingerprint=${found.fingerprint}`;
};

const firstDecision: Path = async (read) => {
  const { decisions } = await read("/controls/acme/SEC-REL-4/decisions");
  return `/acme/controls/SEC-REL-4?decision=${decisions[0].id}`;
};

const firstLargeWhy: Path = async (read) => {
  const { artifacts } = await read("/snapshots/edge/large/1?per_page=1");
  if (!artifacts) throw new Error("The story has no environment 'large': leave out --no-story-rebuild");
  return `/edge/why?environment=large&snapshot=1&fingerprint=${artifacts[0].fingerprint}`;
};
/** Lists of 10,000 rows, and what else shows an environment of that size. */
const LARGE: Readonly<Record<string, Path>> = {
  environment: "/edge/environments/large",
  "environment-last-page": "/edge/environments/large?page=400",
  "environment-failing": "/edge/environments/large?show=failing",
  "environment-events": "/edge/environments/large?tab=events",
  diff: "/edge/env-diff?left=large%231&right=markup",
  "diff-exited": "/edge/env-diff?left=large%231&right=markup&kind=exited&page=2",
  artifacts: "/edge/artifacts?flow=large&page=400",
  flow: "/edge/flows/large",
  trail: "/edge/flows/large/trails/nightly-0",
  "trail-by-artifact": "/edge/flows/large/trails/nightly-0?by=artifact&state=non_compliant",
  "environment-found": "/edge/environments/large?search=service-99",
  "flow-artifacts": "/edge/flows/large?tab=artifacts&page=20",
  "why-snapshot": "/edge/why?environment=large&snapshot=1&page=250",
  why: firstLargeWhy,
  overview: "/edge",
  search: "/edge/search?q=service-99",
  changes: "/edge/changes?from=90days&environment=large",
  binder: "/edge/audit-binder?environment=large",
  "binder-flow": "/edge/audit-binder?flow=large",
};

const SETTINGS = ["general", "members", "service-accounts", "webhooks", "retention", "clients", "audit-log"];
/** Forms and questions of the settings, by what follows `/acme/settings/`. */
const SETTINGS_FORMS: Readonly<Record<string, string>> = {
  "members-add": "members?ask=add",
  "members-role": "members?ask=role&user=dev-lead&role=member",
  "members-gone": "members?ask=role&user=contractor-7",
  "members-remove": "members?ask=remove&user=dev-lead",
  "service-account": "service-accounts/ci-backend-api",
  "service-account-new": "service-accounts?ask=create",
  "service-account-delete": "service-accounts/ci-backend-api?ask=delete",
  "retention-rule": "retention?ask=new-rule",
  "retention-rule-remove": "retention?ask=remove-rule&flow=infra",
  "retention-hold": "retention?ask=hold",
  "audit-log-filtered": "audit-log?event=service_account&actor=a",
  "audit-log-nothing": "audit-log?actor=nothing-like-this",
  "audit-log-roles": "audit-log?tab=memberships",
};

/** The views page about the view of that name. */
const view =
  (name: string, query: string): Path =>
  async (read) => {
    const found = (await read("/views/acme")).find((one: any) => one.name === name);
    return `/acme/views?${query}view=${found?.view_id ?? "x"}`;
  };

/** Names of pages that people print. */
export const PRINTED =
  /^(?:trail|snapshot|control|why|artifact|environment|changes)(?:$|-edge$)|^(?:why-snapshot|.*-logical|binder.*)$/;

export const PAGES: readonly PhotographedPage[] = [
  { name: "setup", path: "/setup", as: null, isBefore: true },
  { name: "setup-refused", path: "/setup", as: null, isBefore: true, step: refuseSetup },
  { name: "login", path: "/login", as: null },
  { name: "account", path: "/account" },
  { name: "overview", path: "/acme" },
  { name: "overview-reader", path: "/acme", as: "auditor" },
  { name: "overview-fresh", path: "/fresh" },
  { name: "overview-fresh-azure", path: "/fresh?pipeline=azure" },
  { name: "overview-steps", path: "/acme?view=steps" },
  { name: "overview-edge", path: "/edge" },
  { name: "changes", path: "/acme/changes?from=%40%7B2.days.ago%7D" },
  { name: "changes-month", path: "/acme/changes?from=30days" },
  { name: "changes-time", path: "/acme/changes?from=7days&view=time" },
  { name: "changes-environment", path: "/acme/changes?from=7days&environment=production-eu" },
  { name: "changes-reader", path: "/acme/changes?from=7days", as: "auditor" },
  { name: "changes-nothing-matches", path: "/acme/changes?from=7days&environment=staging&kind=stale" },
  { name: "changes-none", path: "/fresh/changes?from=2026-01-01&to=2026-01-02" },
  { name: "changes-wrong", path: "/acme/changes?from=yesterday&environment=nowhere" },
  { name: "changes-edge", path: "/edge/changes?from=30days" },

  { name: "deployments", path: "/acme/deployments" },
  { name: "deployments-filtered", path: "/acme/deployments?environment=production-eu&from=2026-11-19&to=2026-11-19" },
  { name: "deployments-fresh", path: "/fresh/deployments" },
  { name: "past-deployments", path: `/acme/deployments?${THEN}` },

  { name: "past-overview", path: `/acme?${THEN}` },
  { name: "past-overview-reader", path: `/acme?${THEN}`, as: "auditor" },
  { name: "past-overview-failing", path: "/acme?at=2026-11-20T09%3A30Z" },
  { name: "past-overview-before", path: "/acme?at=2020-01-01" },
  { name: "error-past", path: "/acme?at=yesterday" },
  { name: "past-environments", path: `/acme/environments?${THEN}` },
  { name: "past-environments-none", path: `/acme/environments?name=nothing-like-this&${THEN}` },
  { name: "past-environment", path: `/acme/environments/production-eu?${THEN}` },
  { name: "past-environment-policies", path: `/acme/environments/production-eu?tab=policies&${THEN}` },
  { name: "past-environment-log", path: `/acme/environments/production-eu?tab=log&${THEN}` },
  { name: "past-environment-before", path: "/acme/environments/production-eu?at=2020-01-01" },
  { name: "past-artifacts", path: `/acme/artifacts?${THEN}` },
  { name: "past-artifact", path: `/acme/flows/backend-api/artifacts/${backend}?at=%40%7B1.hours.ago%7D` },
  { name: "past-policies", path: `/acme/policies?${THEN}` },
  { name: "past-policy", path: `/acme/policies/prod-baseline?${THEN}` },
  { name: "past-why", path: `/acme/why?environment=production-eu&${THEN}` },
  { name: "past-snapshot", path: `/acme/environments/production-eu/-1?${THEN}` },
  { name: "past-diff", path: `/acme/env-diff?left=production-eu~1&right=production-eu&${THEN}` },
  { name: "past-trail", path: `${TRAIL}?${THEN}` },
  { name: "past-binder", path: `/acme/audit-binder?environment=production-eu&${THEN}` },
  { name: "past-controls", path: `/acme/controls?${THEN}` },
  { name: "past-settings", path: `/acme/settings/general?${THEN}` },
  { name: "past-not-kept", path: `/acme/flows?${THEN}` },
  { name: "past-changes", path: `/acme/changes?${THEN}` },

  { name: "views", path: "/acme/views" },
  { name: "views-reader", path: "/acme/views", as: "auditor" },
  { name: "views-fresh", path: "/fresh/views" },
  { name: "view-missing", path: view("Nightly jobs", "") },
  { name: "view-rename", path: view("Kubernetes", "ask=rename&") },
  { name: "view-delete", path: view("Kubernetes", "ask=delete&") },
  { name: "view-shown", path: "/acme/artifacts?state=NON-COMPLIANT" },

  { name: "flows", path: "/acme/flows" },
  { name: "flows-fresh", path: "/fresh/flows" },
  { name: "flows-edge", path: "/edge/flows" },
  { name: "flows-nothing-matches", path: "/acme/flows?search=nothing-like-this" },
  { name: "flow-new", path: "/acme/flows?ask=create" },
  { name: "flow", path: "/acme/flows/backend-api" },
  { name: "flow-reader", path: "/acme/flows/backend-api", as: "auditor" },
  { name: "flow-edge", path: `/edge/flows/${LONG_NAME}` },
  ...tabs("flow", "/acme/flows/backend-api", ["artifacts", "deployments", "template", "settings"]),

  { name: "trail", path: TRAIL },
  { name: "trail-reader", path: TRAIL, as: "auditor" },
  { name: "trail-incomplete", path: "/acme/flows/backend-api/trails/pr-1490" },
  { name: "trail-compliant", path: "/acme/flows/web-checkout/trails/release-8.3.2" },
  { name: "trail-edge", path: `/edge/flows/${LONG_NAME}/trails/${LONG_NAME}` },
  { name: "trail-markup", path: "/edge/flows/markup/trails/release-1" },
  { name: "trail-right-to-left", path: "/edge/flows/right-to-left/trails/release-1" },
  ...[
    ["snyk", "snyk-container"],
    ["junit", "unit-tests"],
    ["jira", "jira-ticket"],
    ["pull-request", "pull-request"],
    ["decision", "release-approval"],
    ["custom", "sbom"],
    ["override", "license-scan"],
    ["generic", "load-test"],
  ].map(([kind, name]) => ({
    name: `attestation-${kind}`,
    path: drawer("backend-api", "release-2.41.0", name as string),
  })),
  { name: "attestation-sonar", path: drawer("backend-api", "release-2.40.3", "sonar-gate") },
  { name: "attestation-sbom", path: drawer("backend-api", "release-2.40.3", "image-sbom") },
  { name: "attestation-image", path: drawer("web-checkout", "release-8.3.1", "browser-tests") },
  ...[
    ["image", "web-checkout", "release-8.3.1", "browser-tests"],
    ["archive", "backend-api", "release-2.41.0", "unit-tests"],
    ["json", "backend-api", "release-2.41.0", "snyk-container"],
  ].map(([kind, flow, trail, name]) => ({
    name: `evidence-${kind}`,
    path: below(drawer(flow as string, trail as string, name as string), "&view=evidence"),
  })),
  { name: "attestation-raw", path: below(drawer("backend-api", "release-2.41.0", "sbom"), "&view=json") },
  {
    name: "attestation-override-form",
    path: below(drawer("backend-api", "release-2.41.0", "snyk-container"), "&ask=override"),
  },
  { name: "attestation-edge", path: drawer("markup", "release-1", "text-1", "edge") },

  { name: "flow-template-edit", path: "/acme/flows/backend-api?tab=template&ask=edit" },
  { name: "flow-archive", path: "/acme/flows/backend-api?tab=settings&ask=archive" },
  { name: "artifact", path: `/acme/flows/backend-api/artifacts/${backend}` },
  {
    name: "artifact-one-away",
    path: `/acme/flows/backend-api/artifacts/${imageFingerprint("acme/report-export:4.2.0")}`,
  },
  {
    name: "artifact-edge",
    path: async (read: Read) => `/edge/flows/markup/artifacts/${await firstEdgeArtifact(read)}`,
  },

  { name: "environments", path: "/acme/environments" },
  { name: "environments-fresh", path: "/fresh/environments" },
  { name: "environments-edge", path: "/edge/environments" },
  { name: "environment-new", path: "/acme/environments?ask=create" },
  { name: "environment", path: "/acme/environments/production-eu" },
  { name: "environment-reader", path: "/acme/environments/production-eu", as: "auditor" },
  { name: "environment-unknown", path: "/acme/environments/load-test" },
  { name: "environment-stale", path: "/acme/environments/batch-settlement" },
  { name: "environment-logical", path: "/acme/environments/production" },
  { name: "environment-never-reported", path: "/edge/environments/never-reported" },
  ...tabs("environment", "/acme/environments/production-eu", [
    "events",
    "log",
    "policies",
    "diff",
    "deployments",
    "settings",
  ]),
  { name: "environment-attach", path: "/acme/environments/load-test?tab=policies&policy_names=prod-baseline" },
  { name: "environment-detach", path: "/acme/environments/production-eu?tab=policies&detach=prod-baseline" },
  { name: "environment-archive", path: "/acme/environments/production-eu?tab=settings&ask=archive" },
  { name: "environment-reader-settings", path: "/acme/environments/production-eu?tab=settings", as: "auditor" },
  { name: "environment-allow", path: `/acme/environments/production-eu?tab=settings&allow=${backend}` },
  { name: "environment-allow-unchosen", path: "/acme/environments/k8s-prod?tab=settings&allow=" },
  { name: "snapshot", path: "/acme/environments/production-eu/-1" },
  { name: "snapshot-first", path: "/acme/environments/production-eu/1" },
  { name: "snapshot-by-time", path: "/acme/environments/production-eu/%40%7B2026-11-07T20:00:00%7D" },
  { name: "snapshot-no-provenance", path: "/acme/environments/k8s-prod/-1" },
  { name: "snapshot-edge", path: "/edge/environments/markup/-1" },
  { name: "env-diff", path: "/acme/env-diff?left=production-eu%23-2&right=production-eu" },
  { name: "env-diff-month", path: "/acme/env-diff?left=production-eu%40%7B30.days.ago%7D&right=production-eu" },
  { name: "env-diff-logical", path: "/acme/env-diff?left=production~1&right=production" },
  { name: "env-diff-edge", path: "/edge/env-diff?left=one-artifact&right=markup" },
  { name: "env-diff-two", path: "/acme/env-diff?left=staging&right=production-eu" },
  { name: "env-diff-wrong", path: "/acme/env-diff?left=nowhere&right=production-eu" },

  { name: "artifacts", path: "/acme/artifacts" },
  { name: "artifacts-fresh", path: "/fresh/artifacts" },
  { name: "attestations", path: "/acme/attestations" },
  { name: "attestations-filtered", path: "/acme/attestations?type=snyk&is_compliant=false" },
  { name: "attestations-nothing-matches", path: "/acme/attestations?name=nothing-like-this" },
  { name: "attestations-other-time", path: "/acme/attestations?name=unit-tests&to=2026-01-01&match=exact" },
  { name: "attestations-regex", path: "/acme/attestations?name=%28&match=regex" },
  { name: "attestations-wrong", path: "/acme/attestations?is_compliant=maybe&from=2026-02-30" },
  { name: "environments-wrong", path: "/acme/environments?state=broken&type=VM" },
  { name: "artifacts-filtered", path: "/acme/artifacts?flow=backend-api" },
  { name: "artifacts-failing", path: "/acme/artifacts?state=NON-COMPLIANT&search=api" },
  { name: "artifacts-edge", path: "/edge/artifacts" },
  { name: "artifacts-nothing-matches", path: "/acme/artifacts?flow=no-such-flow" },
  { name: "attestations-edge", path: "/edge/attestations" },
  { name: "attestation-types", path: "/acme/attestation-types" },
  { name: "attestation-types-fresh", path: "/fresh/attestation-types" },
  { name: "attestation-type", path: "/acme/attestation-types/cyclonedx" },
  { name: "attestation-type-reader", path: "/acme/attestation-types/licenses", as: "auditor" },
  { name: "attestation-type-new", path: "/acme/attestation-types?ask=create" },
  { name: "attestation-type-version", path: "/acme/attestation-types/licenses?ask=version" },
  { name: "attestation-type-archive", path: "/acme/attestation-types/licenses?ask=archive" },

  { name: "policies", path: "/acme/policies" },
  { name: "policies-fresh", path: "/fresh/policies" },
  { name: "policy", path: "/acme/policies/prod-baseline" },
  { name: "policy-edge", path: "/edge/policies/markup" },
  { name: "policies-edge", path: "/edge/policies" },
  { name: "policies-nothing-matches", path: "/acme/policies?search=nothing-like-this" },
  { name: "policy-reader", path: "/acme/policies/prod-baseline", as: "auditor" },
  ...tabs("policy", "/acme/policies/prod-baseline", ["versions", "environments", "events"]),
  { name: "policy-version", path: "/acme/policies/prod-baseline?version=5" },
  { name: "policy-diff", path: "/acme/policies/prod-baseline?tab=versions&against=4&version=7" },
  { name: "policy-detach", path: "/acme/policies/prod-baseline?tab=environments&ask=detach&environment=k8s-prod" },
  { name: "policy-attach", path: "/acme/policies/prod-baseline?tab=environments&env_name=staging" },
  { name: "policy-attach-unchosen", path: "/acme/policies/staging-baseline?tab=environments" },
  { name: "policy-new", path: "/acme/policies?ask=create" },

  { name: "controls", path: "/acme/controls" },
  { name: "binder", path: "/acme/audit-binder?control=SEC-REL-4&from=2026-07-01&to=2026-12-31" },
  { name: "binder-environment", path: "/acme/audit-binder?environment=production-eu" },
  { name: "binder-flow", path: "/acme/audit-binder?flow=backend-api" },
  { name: "binder-reader", path: "/acme/audit-binder?control=SEC-REL-4", as: "auditor" },
  { name: "binder-none", path: "/acme/audit-binder" },
  { name: "binder-wrong", path: "/acme/audit-binder?control=SEC-REL-9&from=yesterday" },
  { name: "binder-edge", path: "/edge/audit-binder?environment=markup" },
  { name: "controls-fresh", path: "/fresh/controls" },
  { name: "controls-edge", path: "/edge/controls" },
  { name: "controls-archived", path: "/acme/controls?tab=archived" },
  { name: "control-new", path: "/acme/controls?ask=create" },
  { name: "control", path: "/acme/controls/SEC-REL-4" },
  { name: "control-archived", path: "/acme/controls/SEC-ACC-9" },
  ...tabs("control", "/acme/controls/SEC-REL-4", ["coverage", "versions"]),
  { name: "control-decision", path: firstDecision },
  { name: "control-reader", path: "/acme/controls/SEC-REL-4", as: "auditor" },
  { name: "control-edit", path: "/acme/controls/SEC-REL-4?ask=edit" },
  { name: "control-archive", path: "/acme/controls/SEC-REL-4?ask=archive" },

  { name: "repos", path: "/acme/repos" },
  { name: "repos-fresh", path: "/fresh/repos" },
  { name: "repo", path: firstRepo },
  ...tabs("repo", firstRepo, ["build", "release", "run"]),

  { name: "actions", path: "/acme/actions" },
  { name: "actions-fresh", path: "/fresh/actions" },
  { name: "action", path: "/acme/actions/1" },
  { name: "action-edit", path: "/acme/actions/1?ask=edit" },
  { name: "action-delete", path: "/acme/actions/1?ask=delete" },
  { name: "action-new", path: "/acme/actions?ask=create" },
  { name: "action-new-flow", path: "/acme/actions?ask=create&type=flow" },
  ...SETTINGS.map((page) => ({ name: `settings-${page}`, path: `/acme/settings/${page}` })),
  ...Object.entries(SETTINGS_FORMS).map(([name, path]) => ({
    name: `settings-${name}`,
    path: `/acme/settings/${path}`,
  })),
  { name: "settings-fresh-service-accounts", path: "/fresh/settings/service-accounts" },
  { name: "settings-reader-webhooks", path: "/acme/settings/webhooks", as: "auditor" },
  { name: "error-settings-reader", path: "/acme/settings/members", as: "auditor" },

  { name: "why", path: why("production-eu", "acme/backend-api:2.41.0") },
  {
    name: "why-all-open",
    path: below(why("production-eu", "acme/backend-api:2.41.0"), "&open=all&policy=pci-controls"),
  },
  { name: "why-reader", path: why("production-eu", "acme/backend-api:2.41.0"), as: "auditor" },
  { name: "why-no-provenance", path: why("k8s-prod", "debug-shell:latest") },
  { name: "why-allowlisted", path: why("production-eu", "redis:7.4-alpine") },
  { name: "why-compliant", path: why("production-eu", "acme/web-checkout:8.3.2") },
  { name: "why-stopped", path: why("production-eu", "acme/backend-api:2.40.3") },
  { name: "why-unknown", path: why("load-test", "acme/backend-api:2.40.2") },
  { name: "why-logical", path: why("production", "acme/backend-api:2.40.3") },
  { name: "why-snapshot", path: "/acme/why?environment=production-eu&snapshot=-1" },
  { name: "why-snapshot-logical", path: "/acme/why?environment=production" },
  { name: "why-snapshot-edge", path: "/edge/why?environment=markup" },
  { name: "why-edge", path: edgeWhy },
  { name: "why-trail", path: "/acme/why?flow=backend-api&trail=release-2.41.0" },
  { name: "why-trail-incomplete", path: "/acme/why?flow=backend-api&trail=pr-1490" },
  { name: "why-trail-compliant", path: "/acme/why?flow=web-checkout&trail=release-8.3.2" },
  { name: "why-trail-edge", path: `/edge/why?flow=${LONG_NAME}&trail=${LONG_NAME}` },
  { name: "why-nothing", path: "/acme/why" },
  { name: "search", path: "/acme/search?q=release-2" },
  { name: "search-nothing", path: "/acme/search?q=fffffff" },
  { name: "search-empty", path: "/acme/search" },
  { name: "search-kind", path: "/acme/search?q=release&kind=trail" },
  { name: "search-environment", path: "/acme/search?choose=allow" },
  { name: "keyboard", path: "/account/keyboard" },

  ...Object.entries(OPENED).map(([name, [path, step]]) => ({ name, path, step })),
  { name: "more", path: "/acme/more" },
  { name: "more-reader", path: "/acme/more", as: "auditor" },

  ...Object.entries(LARGE).map(([name, path]) => ({ name: `large-${name}`, path, isLarge: true })),

  { name: "error-not-found", path: "/acme/flows/no-such-flow" },
  { name: "error-foreign", path: "/no-such-organization" },
].map((page) => ({ as: ADMIN, ...page }));

const firstEdgeArtifact = async (read: Read): Promise<string> =>
  (await read("/artifacts/edge/markup"))[0].fingerprint as string;
