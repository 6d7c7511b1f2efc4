/**
 * What a person may do and where a person may go, as links: for the search page, and for the palette, which shows a
 * part of that page. A command that needs an environment asks for one first.
 */
import { listViews } from "../../../api/accounts/views.ts";
import { createServiceAccount, listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import { listAuditLogEntries } from "../../../api/accounts/audit-log.ts";
import { createMember, listMembers, putMember } from "../../../api/accounts/members.ts";
import { placeLegalHold } from "../../../api/accounts/retention.ts";
import { postCustomAttestationType } from "../../../api/attestations/custom-attestation-types.ts";
import { allowArtifact } from "../../../api/environments/allowlists.ts";
import { getAuditBinder } from "../../../api/environments/audit-binder.ts";
import { attachPolicyToEnv } from "../../../api/environments/environment-policies.ts";
import { createEnv, listEnvs } from "../../../api/environments/environments.ts";
import { createFlowWithTemplate } from "../../../api/flows/flows.ts";
import { putEnvironmentAction } from "../../../api/notifications/actions.ts";
import { postControl } from "../../../api/policies/controls.ts";
import { putPolicy } from "../../../api/policies/policies.ts";
import type { IconName } from "../../components/icon.ts";
import { ENTRIES, SETTINGS } from "../../page/frame.ts";
import type { Links } from "../../page/links.ts";
import type { Visit } from "../../page/page.ts";
import { RESTRICTED } from "./more.ts";

type Restricted = Parameters<Visit["may"]>[0];

/** What is done in an environment that is chosen first: `?choose=` of the search page. */
const CHOICES = {
  allow: { text: "Allow an artifact", operation: allowArtifact, query: { tab: "settings", ask: "allow" } },
  attach: { text: "Attach a policy", operation: attachPolicyToEnv, query: { tab: "policies" } },
} as const satisfies Readonly<Record<string, { text: string; operation: Restricted; query: object }>>;
export type Choice = keyof typeof CHOICES;

/** The choice in an address, if the person may make it; null otherwise. */
export function choiceOf({ query, may }: Pick<Visit, "query" | "may">): { key: Choice; text: string } | null {
  const text = query.get("choose") ?? "";
  const key = Object.hasOwn(CHOICES, text) ? (text as Choice) : null;
  return key !== null && may(CHOICES[key].operation) ? { key, text: CHOICES[key].text } : null;
}

/** Where an environment is chosen for something. */
export const chosenAddress = (to: Links, choice: Choice, environment: string): string =>
  to.environment(environment, CHOICES[choice].query);

/** @property key the keys that do the same (client/keys.ts) @property words by which it is found, too */
export type Offer = { text: string; icon: IconName; href: string; keys?: readonly string[]; words?: string };

type Known = Omit<Offer, "href"> & { operations: readonly Restricted[]; href(to: Links): string };

const choose = (choice: Choice): Pick<Known, "text" | "operations" | "href"> => ({
  text: `${CHOICES[choice].text}…`,
  operations: [CHOICES[choice].operation],
  href: (to) => to.search({ choose: choice }),
});

/** The parameter of the search page that asks for a time; the palette opens the menu of the page instead. */
export const ASK_TIME = "time";

const COMMANDS: readonly Known[] = [
  { ...choose("allow"), icon: "shield-check", words: "allowlist exception" },
  { ...choose("attach"), icon: "law", words: "environment" },
  {
    text: "Compare two environments…",
    icon: "git-compare",
    operations: [listEnvs],
    href: (to) => to.environmentDiff("", ""),
    words: "diff snapshots",
  },
  {
    text: "Go to a time…",
    icon: "clock",
    operations: [listEnvs],
    href: (to) => to.search({ [ASK_TIME]: "1" }),
    keys: ["t"],
    words: "history snapshot past date moment as of",
  },
  {
    text: "Audit binder…",
    icon: "log",
    operations: [getAuditBinder],
    href: (to) => to.auditBinder(),
    words: "auditor package evidence period",
  },
  {
    text: "Invite a member…",
    icon: "people",
    operations: [createMember, putMember],
    href: (to) => to.settings("members", { ask: "add" }),
    words: "add user person",
  },
  { text: "New flow…", icon: "workflow", operations: [createFlowWithTemplate], href: (to) => to.flows(ASK) },
  { text: "New environment…", icon: "server", operations: [createEnv], href: (to) => to.environments(ASK) },
  { text: "New policy…", icon: "law", operations: [putPolicy], href: (to) => to.policies(ASK) },
  { text: "New control…", icon: "checklist", operations: [postControl], href: (to) => to.controls(ASK) },
  {
    text: "New attestation type…",
    icon: "verified",
    operations: [postCustomAttestationType],
    href: (to) => to.attestationTypes(ASK),
  },
  {
    text: "New action…",
    icon: "zap",
    operations: [putEnvironmentAction],
    href: (to) => to.actions(ASK),
    words: "notification message slack webhook mail",
  },
  {
    text: "New service account…",
    icon: "hubot",
    operations: [createServiceAccount],
    href: (to) => to.settings("service-accounts", ASK),
    words: "api key robot",
  },
  {
    text: "Place a hold…",
    icon: "lock",
    operations: [placeLegalHold],
    href: (to) => to.settings("retention", { ask: "hold" }),
    words: "retention legal",
  },
];

const ASK = { ask: "create" } as const;

/** Beside the sections of the navigation. */
const PLACES: readonly Known[] = [
  {
    text: "Views",
    icon: "bookmark",
    operations: [listViews],
    href: (to) => to.views(),
    keys: ["g", "v"],
    words: "saved lists filters",
  },
  { text: "Members", icon: "people", operations: [listMembers], href: (to) => to.settings("members") },
  {
    text: "Service accounts",
    icon: "hubot",
    operations: [listServiceAccounts],
    href: (to) => to.settings("service-accounts"),
    words: "api keys",
  },
  {
    text: "Audit log",
    icon: "log",
    operations: [listAuditLogEntries],
    href: (to) => to.settings("audit-log"),
    keys: ["g", "l"],
    words: "history changes",
  },
  {
    text: "Account",
    icon: "person",
    operations: [],
    href: (to) => to.account(),
    words: "theme password sign out keys",
  },
  { text: "Keyboard", icon: "question", operations: [], href: (to) => to.keys(), keys: ["?"], words: "shortcuts help" },
  { text: "API reference", icon: "book", operations: [], href: (to) => to.guide(), words: "guide documentation" },
];

/** The commands that a person may give, and the places to which a person may go, that match a text. */
export function listCommands(
  { to, may }: Pick<Visit, "to" | "may">,
  text: string,
): { commands: Offer[]; places: Offer[] } {
  const isWanted = ({ text: name, words = "" }: { text: string; words?: string }): boolean =>
    `${name} ${words}`.toLowerCase().includes(text.toLowerCase());
  const known = (list: readonly Known[]): Offer[] =>
    list
      .filter((one) => one.operations.every(may) && isWanted(one))
      .map(({ operations: _, href, ...one }) => ({ ...one, href: href(to) }));
  const sections = [...ENTRIES, SETTINGS]
    .filter(({ section }) => may(RESTRICTED[section] ?? listEnvs))
    .filter(isWanted)
    .map(({ text: name, icon, href, key }) => ({
      text: name,
      icon,
      href: href(to),
      ...(key === undefined ? {} : { keys: ["g", key] }),
    }));
  return { commands: known(COMMANDS), places: [...sections, ...known(PLACES)] };
}
