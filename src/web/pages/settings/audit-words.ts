/** Entries of the audit log in people's words: what happened, to what, and what was there before. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { listAuditLogEntries } from "../../../api/accounts/audit-log.ts";
import { decodePathPart } from "../../../domain/network/urls.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Links } from "../../page/links.ts";

export type LoggedEntry = AnswerOf<typeof listAuditLogEntries>["entries"][number];

/** What events are about, by the first word of their names. */
const SUBJECTS: Readonly<Record<string, string>> = {
  api_key: "API key",
  custom_type: "Attestation type",
  delivery: "Message",
  identity: "Login",
  notification_config: "Recipients of warnings",
  rego_policy: "Rego policy",
  retention: "Retention",
  service_account: "Service account",
  tags: "Tags",
};
/** Where the words of an event are not what people say. */
const VERBS: Readonly<Record<string, string>> = {
  "artifact.allowed": "allowlisted",
  "environment.joined": "joined by a member",
  "environment.policies_attached": "policies attached",
  "environment.policies_detached": "policies detached",
  "member.role_changed": "role changed",
  "organization.beta_switched": "controls switched",
};

/** Of operations that create and change. */
const UPSERTS: readonly string[] = ["put", "applied"];

const spaced = (text: string): string => text.replaceAll("_", " ");
const capital = (text: string): string => `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}`;

/** `Trail begun`, `Attestation overridden`, `Environment created`. */
export function eventWords({ event, detail }: LoggedEntry): string {
  const [subject = "", verb = ""] = event.split(".");
  const noun = SUBJECTS[subject] ?? capital(spaced(subject));
  const { created, attestation_type: type } = detail ?? {};
  const isUpsert = UPSERTS.includes(verb) || event === "trail.begun" || event === "artifact.reported";
  const done = (): string => {
    if (event === "attestation.reported" && type === "override") return "overridden";
    if (isUpsert && created === false) return "updated";
    if (UPSERTS.includes(verb)) return created === true ? "created" : "set";
    return VERBS[event] ?? spaced(verb);
  };
  return `${noun} ${done()}`;
}

/** The parts of the path of a request behind the organization; none for a target that is a name. */
function partsOf(target: string): string[] {
  const [, rest] = /^\/api\/v2\/[^/]+\/[^/]+\/?(.*)$/.exec(target) ?? [];
  return rest ? rest.split("/").map(decodePathPart) : [];
}

type Facts = {
  entry: LoggedEntry;
  to: Links;
  /** The parts of the path of the request behind the organization. */
  parts: readonly string[];
  /** A text of the entry's details; null without one. */
  named(key: string): string | null;
};

/** A name goes to the next line as a whole, and is cut where it is longer than two. */
const cut = (name: string): Html => html`<bdi class="cut">${name}</bdi>`;
const link = (href: string, name: string): Html => html`<a href="${href}">${cut(name)}</a>`;

/** A named object with a page: its name in the details, or in the path. */
const linked =
  (key: string, hrefOf: (to: Links, name: string) => string) =>
  ({ to, parts, named }: Facts): Html | null => {
    const name = named("to") ?? named(key) ?? parts[0];
    return name ? link(hrefOf(to, named("archived_as") ?? name), name) : null;
  };

function accountOf({ entry, to, parts, named }: Facts): Html | null {
  const name = named("account") ?? (entry.target.startsWith("/api/v2/service-accounts/") ? parts[0] : null);
  return name ? link(to.serviceAccount(name), name) : null;
}

/** How an object is shown, by the first word of the event; null where the entry does not name it. */
const OBJECTS: Readonly<Record<string, (facts: Facts) => Html | null>> = {
  environment: linked("environment", (to, name) => to.environment(name)),
  flow: linked("flow", (to, name) => to.flow(name)),
  policy: linked("policy", (to, name) => to.policy(name)),
  control: linked("control", (to, name) => to.control(name)),
  custom_type: linked("type", (to, name) => to.attestationType(name)),
  member: linked("user", (to, name) => to.settings("audit-log", { tab: "memberships", search: name })),
  service_account: accountOf,
  api_key: accountOf,
  trail({ to, parts: [flow], named }) {
    const trail = named("trail");
    return flow && trail ? html`${link(to.trail(flow, trail), trail)}${placed(cut(flow))}` : null;
  },
  artifact({ entry, to, parts: [place], named }) {
    const print = named("artifact_fingerprint");
    if (!place || !print) return null;
    const short = print.slice(0, 7);
    return entry.event === "artifact.allowed"
      ? html`<bdi>${named("artifact_name") ?? short}</bdi>${placed(link(to.environment(place), place))}`
      : html`${link(to.artifact(place, print), short)}${placed(cut(place))}`;
  },
  attestation({ to, parts: [flow, , trail], named }) {
    const [name, id] = [named("attestation_name"), named("attestation_id")];
    if (!flow || !trail || !name || !id) return null;
    return html`${link(to.attestation({ flow, trail, id }), name)}${placed(html`${cut(flow)} / ${cut(trail)}`)}`;
  },
  view({ to, named }) {
    const name = named("to") ?? named("view");
    return name ? link(to.views(), name) : null;
  },
  action({ entry, to, named }) {
    const [number, name] = [entry.detail?.["number"], named("action")];
    if (typeof number !== "number" || !name) return null;
    return entry.event === "action.deleted" ? html`<bdi>${name}</bdi>` : link(to.action(number), name);
  },
};

/** The object by its name, with a link where it has a page; the path of the request where no name is known. */
export function describeObject(entry: LoggedEntry, to: Links): Html {
  const { target, detail, event } = entry;
  const named = (key: string): string | null => {
    const value = detail?.[key];
    return typeof value === "string" && value !== "" ? value : null;
  };
  const [subject = ""] = event.split(".");
  const show = Object.hasOwn(OBJECTS, subject) ? OBJECTS[subject] : undefined;
  return (
    show?.({ entry, to, parts: partsOf(target), named }) ??
    html`<bdi title="${target}">${target.replace(/^\/api\/v2\//, "")}</bdi>`
  );
}

const placed = (place: Html): Html => html` <span class="muted">in ${place}</span>`;

/** Pairs of keys under which entries keep what was there before, and what is there now. */
const CHANGES: readonly (readonly [label: string, before: string, after: string])[] = [
  ["Name", "from", "to"],
  ["Role", "previous_role", "role"],
  ["Role", "previous_privilege", "privilege"],
];

/** `Role: reader → member`, `Version 8`, `Changed: description`; null where the entry does not say more. */
export function changeWords({ detail }: LoggedEntry): Html | null {
  if (detail === null) return null;
  const shown = (value: unknown): string | null =>
    typeof value === "string" || typeof value === "number" ? String(value) : null;
  const listed = (key: string): string[] =>
    Array.isArray(detail[key]) ? (detail[key] as unknown[]).flatMap((one) => shown(one) ?? []) : [];
  const pairs = CHANGES.flatMap(([label, before, after]) => {
    const [old, now] = [shown(detail[before]), shown(detail[after])];
    return old === null || now === null || old === now
      ? []
      : [html`${label}: <bdi>${old}</bdi> → <b><bdi>${now}</bdi></b>`];
  });
  const version = shown(detail["version"]);
  const fields = [
    ...listed("fields"),
    ...listed("changes"),
    ...(detail["description_changed"] === true ? ["description"] : []),
  ];
  const policies = listed("policies");
  const parts = [
    ...pairs,
    ...(version === null ? [] : [html`Version ${version}`]),
    ...(fields.length === 0 ? [] : [html`Changed: ${fields.map(spaced).join(", ")}`]),
    ...(policies.length === 0 ? [] : [html`<bdi>${policies.join(", ")}</bdi>`]),
  ];
  return parts.length === 0 ? null : html`${parts.map((part, at) => html`${at > 0 && "; "}${part}`)}`;
}
