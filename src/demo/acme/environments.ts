/** The environments of acme and what has run in them for two months. */
import { fingerprintOf } from "../steps.ts";
import type { Calendar, StoryTime, Step, Teller } from "../steps.ts";
import { ADMIN, ORG } from "./people.ts";
import { imageFingerprint } from "./releases.ts";

type Type = "K8S" | "lambda" | "docker";
type Environment = {
  type: Type;
  description: string;
  policies: readonly string[];
  tags: Record<string, string>;
  reporter: string;
  /** The last report, which finds what it found before. */
  lastReport: StoryTime;
  services: readonly Service[];
  jobs?: readonly Job[];
};
/** Instances, and since when which version runs; the last one until today unless `until` is given. */
type Service = {
  image: string;
  instances?: number;
  versions: readonly (readonly [string, StoryTime])[];
  until?: StoryTime;
};
/** Runs for some minutes on every so many days. */
type Job = { image: string; start: `${number}:${number}`; minutes: number; everyDays: number };

/** One version ever since. @param image name and version */
const one = (image: string, since: StoryTime, instances = 2): Service => {
  const [name = "", version = ""] = image.split(":");
  return { image: name, instances, versions: [[version, since]] };
};

const BACKEND: Service["versions"] = [
  ["2.36.0", "61d 09:30"],
  ["2.37.0", "53d 09:30"],
  ["2.38.0", "44d 09:30"],
  ["2.39.0", "30d 09:30"],
  ["2.39.1", "22d 09:30"],
  ["2.40.0", "15d 09:40"],
  ["2.40.1", "12d 02:55"],
  ["2.40.2", "8d 09:30"],
  ["2.40.3", "3d 10:05"],
];
const CHECKOUT: Service["versions"] = [
  ["8.1.0", "55d 11:20"],
  ["8.1.1", "46d 11:20"],
  ["8.2.0", "36d 11:20"],
  ["8.2.1", "24d 11:20"],
  ["8.2.2", "16d 11:20"],
  ["8.3.0", "7d 11:20"],
  ["8.3.2", "1d 12:55"],
];
const INGRESS: Service["versions"] = [
  ["51", "61d 08:20"],
  ["52", "49d 08:20"],
  ["53", "41d 08:20"],
  ["54", "28d 08:20"],
  ["55", "21d 08:20"],
  ["56", "14d 07:20"],
];
const DISPATCH: Service["versions"] = [
  ["0.9.4", "50d 09:20"],
  ["0.9.5", "17d 09:20"],
];
/** Each version some minutes earlier than in production. */
const earlier = (versions: Service["versions"], minutes: number): Service["versions"] =>
  versions.map(([version, since]) => {
    const [days, time = ""] = since.split(" ");
    const [hours, rest] = time.split(":").map(Number) as [number, number];
    const total = Math.max(0, hours * 60 + rest - minutes);
    const two = (value: number): string => String(value).padStart(2, "0");
    return [version, `${days} ${two(Math.floor(total / 60))}:${two(total % 60)}` as StoryTime] as const;
  });

const ENVIRONMENTS: Readonly<Record<string, Environment>> = {
  "production-eu": {
    type: "K8S",
    description: "Payments and checkout for customers in the EU",
    policies: ["prod-baseline", "pci-controls"],
    tags: { tier: "production", region: "eu-central" },
    reporter: "reporter-production-eu",
    lastReport: "0d 11:23",
    services: [
      { image: "acme/backend-api", instances: 6, versions: [...BACKEND, ["2.41.0", "0d 09:14"]] },
      { image: "acme/web-checkout", instances: 8, versions: CHECKOUT },
      { image: "acme/ingress", versions: INGRESS },
      {
        image: "acme/ledger-worker",
        instances: 4,
        versions: [
          ["1.19.2", "59d 10:00"],
          ["1.19.4", "3d 10:20"],
        ],
      },
      {
        image: "acme/fraud-scorer",
        versions: [
          ["0.21.4", "58d 10:00"],
          ["0.22.0", "9d 11:00"],
        ],
      },
      one("acme/session-store:3.4.1", "57d 10:00", 3),
      one("acme/mail-relay:1.7.2", "56d 10:00"),
      { image: "acme/webhook-dispatch", instances: 3, versions: DISPATCH },
      one("redis:7.4-alpine", "39d 09:30", 3),
    ],
    jobs: [
      { image: "acme/ledger-close:2.3.0", start: "01:00", minutes: 25, everyDays: 1 },
      { image: "acme/ledger-close:2.3.0", start: "12:30", minutes: 20, everyDays: 2 },
    ],
  },
  "k8s-prod": {
    type: "K8S",
    description: "Everything that is shared by all regions",
    policies: ["prod-baseline", "pci-controls"],
    tags: { tier: "production", region: "global" },
    reporter: "reporter-fleet",
    lastReport: "0d 11:21",
    services: [
      { image: "acme/backend-api", instances: 2, versions: BACKEND },
      { image: "acme/web-checkout", instances: 3, versions: CHECKOUT },
      { image: "acme/ingress", versions: INGRESS },
      {
        image: "acme/report-export",
        instances: 1,
        versions: [
          ["4.1.0", "45d 14:00"],
          ["4.2.0", "3d 11:00"],
        ],
      },
      { image: "debug-shell", instances: 1, versions: [["latest", "1d 16:20"]] },
      one("acme/fraud-scorer:0.22.0", "9d 11:30"),
      one("acme/session-store:3.4.1", "57d 10:30"),
      one("acme/mail-relay:1.7.2", "56d 10:30"),
      { image: "acme/webhook-dispatch", versions: DISPATCH },
      one("acme/catalog:5.6.0", "52d 11:00", 4),
      one("acme/pricing:3.0.2", "29d 11:00", 4),
      one("acme/edge-proxy:1.8.0", "60d 11:00", 5),
      one("acme/rate-limiter:0.9.1", "60d 11:05"),
      one("acme/cert-rotator:2.2.0", "60d 11:10", 1),
    ],
    jobs: [{ image: "acme/ledger-close:2.3.0", start: "02:10", minutes: 15, everyDays: 7 }],
  },
  "batch-settlement": {
    type: "lambda",
    description: "Functions of the nightly settlement",
    policies: ["pci-controls"],
    tags: { tier: "production" },
    reporter: "reporter-fleet",
    lastReport: "1d 09:24",
    services: ["settle-daily", "payout-batch", "fx-rates", "statement-pdf", "chargeback-import", "sepa-export"].map(
      (name, index) => one(`acme/${name}:2.12.0`, index === 5 ? "4d 12:00" : "59d 12:00", 1),
    ),
  },
  staging: {
    type: "K8S",
    description: "Releases before they go to production",
    policies: ["staging-baseline"],
    tags: { tier: "test" },
    reporter: "reporter-fleet",
    lastReport: "0d 11:23",
    services: [
      { image: "acme/backend-api", versions: [...earlier(BACKEND, 50), ["2.41.0", "0d 08:20"]] },
      { image: "acme/web-checkout", versions: [...earlier(CHECKOUT, 40), ["8.3.3", "0d 10:46"]] },
      { image: "acme/ingress", versions: earlier(INGRESS, 30) },
      one("acme/ledger-worker:1.19.4", "3d 09:40"),
      one("acme/fraud-scorer:0.22.0", "29d 16:00"),
      one("acme/session-store:3.4.1", "57d 09:30"),
      one("acme/mail-relay:1.7.2", "56d 09:30"),
      { image: "acme/webhook-dispatch", versions: earlier(DISPATCH, 30) },
      one("acme/catalog:5.6.0", "52d 10:00"),
      one("acme/pricing:3.0.2", "29d 10:00"),
      one("acme/edge-proxy:1.8.0", "60d 10:00"),
      one("acme/rate-limiter:0.9.1", "60d 10:05"),
    ],
    jobs: [
      { image: "acme/smoke-tests:1.4.0", start: "05:00", minutes: 10, everyDays: 1 },
      { image: "acme/smoke-tests:1.4.0", start: "13:00", minutes: 10, everyDays: 1 },
      { image: "acme/smoke-tests:1.4.0", start: "21:00", minutes: 10, everyDays: 1 },
    ],
  },
  "load-test": {
    type: "docker",
    description: "Started by hand",
    policies: [],
    tags: {},
    reporter: "reporter-fleet",
    lastReport: "0d 11:19",
    services: [
      one("grafana/k6:0.54", "34d 15:00", 1),
      one("postgres:17", "34d 15:00", 1),
      { image: "acme/backend-api", instances: 1, versions: [["2.40.2", "9d 10:00"]] },
      { image: "acme/backend-api", instances: 1, versions: [["2.41.0", "0d 08:25"]], until: "0d 08:58" },
    ],
  },
};

/** The images of a part of the production, which has no reports of its own. */
const LOGICAL = { name: "production", members: ["production-eu", "k8s-prod", "batch-settlement"] };

type Running = { image: string; instances: number; from: number; until: number };

/** When each image ran, from the tables. */
function runsOf({ services, jobs = [] }: Environment, { now, time }: Calendar): Running[] {
  const versions = services.flatMap(({ image, instances = 2, versions: all, until }) =>
    all.map(([version, since], index) => {
      const next = all[index + 1];
      const end = next ? time(next[1]) : until === undefined ? Number.POSITIVE_INFINITY : time(until);
      return { image: `${image}:${version}`, instances, from: time(since), until: end };
    }),
  );
  const runs = jobs.flatMap(({ image, start, minutes, everyDays }) =>
    Array.from({ length: Math.floor(58 / everyDays) }, (_, index) => {
      const from = time(`${58 - index * everyDays}d ${start}`);
      return { image, instances: 1, from, until: from + minutes * 60 };
    }),
  );
  return [...versions, ...runs].filter(({ from }) => from <= now);
}

/** The items of a report: one for each instance. */
function itemsOf(type: Type, running: readonly Running[]): object[] {
  return running.flatMap(({ image, instances, from }) =>
    Array.from({ length: instances }, (_, index) => {
      const item = { digests: { [image]: imageFingerprint(image) }, creationTimestamp: Math.floor(from) + index * 4 };
      if (type !== "K8S") return item;
      const name = image.replace(/^.*\//, "").replace(/:.*$/, "");
      const suffix = fingerprintOf(`${image} ${index}`).slice(0, 9);
      return { ...item, podName: `${name}-${suffix}`, namespace: name === "ingress" ? "network" : "payments" };
    }),
  );
}

function reportSteps(name: string, environment: Environment, calendar: Calendar): Step[] {
  const runs = runsOf(environment, calendar);
  const last = calendar.time(environment.lastReport);
  const changes = runs.flatMap(({ from, until }) => [from, until]).filter((at) => at < last);
  // Reports that find a new verdict: after a scan of what runs, and after the incident began.
  const looks = environment.type === "K8S" ? [54, 47, 40, 33, 26, 19].map((day) => calendar.time(`${day}d 02:40`)) : [];
  const times = new Set([...changes, ...looks, calendar.time("13d 18:41"), last]);
  return [...times].map((at) => ({
    at,
    async make({ send }) {
      const running = runs.filter(({ from, until }) => from <= at && at < until);
      const body = { type: environment.type, artifacts: itemsOf(environment.type, running) };
      const path = `/environments/${ORG}/${name}/report/${environment.type}`;
      await send("PUT", path, { by: environment.reporter, body });
    },
  }));
}

export const environments = (calendar: Calendar): Step[] => [
  ...Object.entries(ENVIRONMENTS).flatMap(([name, environment], index) => {
    const { type, description, policies, tags } = environment;
    return [
      {
        at: calendar.time("62d 10:00") + index * 300,
        async make({ send }: Teller) {
          await send("PUT", `/environments/${ORG}`, { by: ADMIN, body: { name, type, description, policies } });
          const body = { set_tags: tags, remove_tags: [] };
          await send("PATCH", `/tags/${ORG}/environment/${name}`, { by: ADMIN, body });
        },
      },
      ...reportSteps(name, environment, calendar),
    ];
  }),
  {
    at: calendar.time("62d 11:00"),
    make: ({ send }) =>
      send("PUT", `/environments/${ORG}`, {
        by: ADMIN,
        body: {
          name: LOGICAL.name,
          type: "logical",
          description: "Everything that customers depend on",
          included_environments: LOGICAL.members,
        },
      }),
  },
  {
    at: calendar.time("39d 09:00"),
    make: ({ send }) =>
      send("PUT", `/allowlists/${ORG}/production-eu`, {
        by: "security-duty",
        body: {
          artifact_name: "redis:7.4-alpine",
          artifact_fingerprint: imageFingerprint("redis:7.4-alpine"),
          description: "Upstream cache image, scanned weekly, SEC-412",
        },
      }),
  },
];
