/** All trails of acme, in two months. */
import type { StoryTime } from "../steps.ts";
import type { FlowName } from "./flows.ts";
import type { Result } from "./results.ts";

export type Release = {
  flow: FlowName;
  trail: string;
  at: StoryTime;
  message: string;
  /** First digits of the commit. */
  commit?: string;
  author?: string;
  pullRequest?: number;
  ticket?: string;
  /** The template, where it is not that of the flow. */
  kind?: "service" | "change";
  /** Name -> version; by default every artifact of the template, with the number in the name of the trail. */
  images?: Readonly<Record<string, string>>;
  /** What does not pass, by attestation or `artifact.attestation`. */
  results?: Readonly<Record<string, Result>>;
};

const MISSING: Result = { missing: true };

/** What a row says of a release besides its time and its version. */
type More = Partial<Release>;

/** @param image name and version */
const service = (at: StoryTime, image: string, more: More = {}): Release => {
  const [name = "", version = ""] = image.split(":");
  return {
    flow: "backend-api",
    trail: `${name}-${version}`,
    at,
    message: `Release ${name} ${version}`,
    kind: "service",
    images: { [name]: version },
    ...more,
  };
};

const backend = (at: StoryTime, version: string, more: More & { message: string }): Release => ({
  flow: "backend-api",
  trail: `release-${version}`,
  at,
  ...more,
});

const change = (at: StoryTime, number: number, more: More & { message: string }): Release => ({
  flow: "backend-api",
  trail: `pr-${number}`,
  at,
  pullRequest: number,
  kind: "change",
  ...more,
});

const checkout = (at: StoryTime, version: string, more: More & { message: string }): Release => ({
  flow: "web-checkout",
  trail: `release-${version}`,
  at,
  ...more,
});

const network = (at: StoryTime, number: number, more: More & { message: string }): Release => ({
  flow: "infra",
  trail: `eu-network-${number}`,
  at,
  ticket: `INF-${947 + number}`,
  author: "cluster-operator",
  ...more,
});

export const RELEASES: readonly Release[] = [
  backend("61d 08:00", "2.36.0", { message: "Settle in the currency of the merchant" }),
  network("61d 07:00", 51, { message: "Widen the subnet of the payment nodes" }),
  service("60d 07:30", "ledger-close:2.3.0"),
  service("60d 07:40", "smoke-tests:1.4.0"),
  service("60d 07:50", "settlement:2.12.0", {
    images: {
      "settle-daily": "2.12.0",
      "payout-batch": "2.12.0",
      "fx-rates": "2.12.0",
      "statement-pdf": "2.12.0",
      "chargeback-import": "2.12.0",
      "sepa-export": "2.12.0",
    },
  }),
  service("60d 09:00", "k8s-platform:12", {
    flow: "infra",
    images: { "edge-proxy": "1.8.0", "rate-limiter": "0.9.1", "cert-rotator": "2.2.0" },
  }),
  service("59d 08:00", "ledger-worker:1.19.2"),
  service("58d 08:00", "fraud-scorer:0.21.4"),
  service("57d 08:00", "session-store:3.4.1"),
  service("56d 08:00", "mail-relay:1.7.2"),
  checkout("55d 10:00", "8.1.0", { message: "Address form with fewer fields" }),
  backend("53d 08:00", "2.37.0", { message: "Refunds in parts" }),
  service("52d 09:00", "catalog:5.6.0", { flow: "web-checkout" }),
  service("50d 08:00", "webhook-dispatch:0.9.4"),
  network("49d 07:00", 52, { message: "Second gateway in the north" }),
  checkout("46d 10:00", "8.1.1", { message: "Keep the basket when the session ends" }),
  service("45d 12:00", "report-export:4.1.0"),
  backend("44d 08:00", "2.38.0", { message: "Webhooks are signed" }),
  network("41d 07:00", 53, { message: "Deny outgoing traffic by default" }),
  checkout("36d 10:00", "8.2.0", { message: "Pay by instant transfer" }),
  backend("30d 08:00", "2.39.0", {
    message: "Score payments before they are captured",
    commit: "3c8e771",
    images: { "backend-api": "2.39.0", "db-migrations": "2.39.0", "fraud-scorer": "0.22.0" },
  }),
  service("29d 09:00", "pricing:3.0.2", { flow: "web-checkout" }),
  network("28d 07:00", 54, { message: "Rotate the keys of the VPN" }),
  checkout("24d 10:00", "8.2.1", { message: "Fix totals in Swiss francs" }),
  backend("22d 08:00", "2.39.1", { message: "Do not score refunds" }),
  network("21d 07:00", 55, { message: "Separate the nodes of the ledger" }),
  change("20d 13:00", 1462, { message: "Rename the table of merchants" }),
  service("17d 08:00", "webhook-dispatch:0.9.5"),
  checkout("16d 10:00", "8.2.2", { message: "Show the delivery date" }),
  backend("15d 08:00", "2.40.0", { message: "Capture payments in batches" }),
  network("14d 06:00", 56, { message: "Ingress with HTTP/3", commit: "f0147ab" }),
  backend("12d 01:40", "2.40.1", { message: "Update libpeapod to 3.2.1", author: "security-duty" }),
  change("12d 15:00", 1471, { message: "Read rates once a minute" }),
  backend("8d 08:00", "2.40.2", { message: "Retry captures after a timeout" }),
  checkout("7d 10:00", "8.3.0", { message: "Remember the last way of paying" }),
  change("6d 15:20", 1478, { message: "Log the id of the merchant" }),
  change("4d 16:05", 1483, { message: "Try another JSON parser", results: { "sonar-gate": MISSING } }),
  backend("3d 08:00", "2.40.3", {
    message: "Round fees per line, not per invoice",
    commit: "a90b2c4",
    images: { "backend-api": "2.40.3", "db-migrations": "2.40.3", "ledger-worker": "1.19.4" },
  }),
  service("3d 07:30", "report-export:4.2.0", { results: { "sonar-gate": MISSING } }),
  network("2d 09:40", 57, {
    message: "Open the port of the new reporter",
    commit: "e2077bd",
    results: { "change-approval": MISSING },
  }),
  checkout("1d 08:30", "8.3.1", {
    message: "Gift cards",
    commit: "19f6b7e",
    results: { "web-checkout.browser-tests": { failures: 3 } },
  }),
  checkout("1d 12:00", "8.3.2", { message: "Gift cards, with the button in its place", commit: "5d1c0ef" }),
  change("1d 14:10", 1487, { message: "Explain refusals to merchants" }),
  backend("0d 08:02", "2.41.0", {
    message: "Retry settlement webhooks with an idempotency key",
    commit: "7be1f09",
    pullRequest: 1482,
    ticket: "PAY-3120",
    results: {
      "sonar-gate": MISSING,
      "backend-api.unit-tests": { total: 1220, skipped: 6 },
      "backend-api.snyk-container": { high: 1, medium: 3 },
      "backend-api.sbom": { components: 318 },
      "backend-api.license-scan": { unknown: 1 },
      "db-migrations.unit-tests": { total: 88, skipped: 0 },
      "db-migrations.dry-run": { description: "4 migrations" },
    },
  }),
  checkout("0d 10:30", "8.3.3", {
    message: "Gift cards of partners",
    results: { "web-checkout.unit-tests": { total: 2031, skipped: 0 } },
  }),
  change("0d 10:45", 1490, {
    message: "Send receipts through the new relay",
    results: { "unit-tests": MISSING, "sonar-gate": MISSING },
  }),
];
