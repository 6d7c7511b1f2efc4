/**
 * A page of the web interface is one literal, declared once in `web/pages/`. It gets data only by calling operations of
 * the API (`visit.call`), so it can neither show nor change more than the API does.
 *
 * @example
 *
 *     export const flowPage = page({
 *       path: "/{org}/flows/{flow}",
 *       async show({ call, params, to }) {
 *         const flow = await call(getFlow, { params: { flow_name: params.flow } });
 *         return {
 *           title: flow.name,
 *           section: "flows",
 *           crumbs: [{ text: "Flows", href: to.flows() }],
 *           main: html`<h1>${flow.name}</h1>`,
 *         };
 *       },
 *       forms: {
 *         rename: form(renameFlow, async ({ call, params, to }, fields) => {
 *           const name = fields.text("new_name");
 *           await call(renameFlow, { params: { flow_name: params.flow }, body: { new_name: name } });
 *           return { go: to.flow(name), done: "renamed" };
 *         }),
 *       },
 *     });
 */
import type { Feature, Permission, Role } from "../../domain/access.ts";
import type { SourceProblem } from "../../errors.ts";
import type { AnswerOf, CallInput, Caller } from "../../http/in-process.ts";
import type { Html } from "../html.ts";
import type { Fields } from "./fields.ts";
import type { Links } from "./links.ts";
import type { Preferences } from "./preferences.ts";

/** An entry of the navigation. */
export type Section =
  | "overview"
  | "changes"
  | "flows"
  | "environments"
  | "artifacts"
  | "attestations"
  | "policies"
  | "controls"
  | "repos"
  | "actions"
  | "settings";

/** What decides whether an operation may be called; an operation is one. */
type Restricted = { permission: Permission; feature?: Feature };

type Callable = Parameters<Caller["call"]>[0];
/** As CallInput; the organization of the page is filled in. */
type PageInput<O extends Callable> = Omit<CallInput<O>, "params"> & {
  params?: Omit<NonNullable<CallInput<O>["params"]>, "org"> & { org?: string };
};

/** One request for a page, by a person who is signed in. */
export type Visit = {
  /** Name of the organization; empty on a page outside of one. */
  org: string;
  /** The parameters of the path, decoded. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** The path of the page below the root, as requested; for forms, which submit to their own page. */
  path: string;
  user: { name: string; displayName: string };
  /** The public address of the server without a trailing slash, for commands to paste. */
  address: string;
  /** The role in the organization; null for a reader of a public one, and outside of one. */
  role: Role | null;
  /** Epoch seconds; in the past, the moment that is shown. */
  now: number;
  /** The moment in the past that is shown; null for the present. */
  moment: Moment | null;
  /** The state of the database before the page read anything. */
  databaseState: number;
  to: Links;
  /** The same links to the present. */
  toNow: Links;
  /**
   * Calls an operation as the person, in the organization of the page.
   * @throws AppError for every refusal; an uncaught one becomes a page that says why.
   */
  call<O extends Callable>(operation: O, input?: PageInput<O>): Promise<AnswerOf<O>>;
  /** Opens the file that an operation answers with. @throws AppError for every refusal. */
  open<O extends Callable>(operation: O, input?: PageInput<O>): ReturnType<Caller["open"]>;
  /** Whether the person's role permits an operation; what it does not permit is not shown. */
  may(operation: Restricted): boolean;
  /** The address of this page with other query parameters; null removes one. Pages of a list start anew. */
  here(changes: Readonly<Record<string, string | number | null>>): string;
  /** The form that was submitted and refused, to be shown again with what was typed; null on other requests. */
  refused: RefusedForm | null;
  /** The token that every form of this answer carries. */
  csrf: string;
  /** The id of the person in records of who created what. */
  userId: string;
  /** What was chosen in this browser. */
  preferences: Preferences;
};

/** A moment in the past. */
export type Moment = {
  /** Epoch seconds, in whole milliseconds. */
  at: number;
  /** As addresses have it. */
  text: string;
  /** The present, in epoch seconds. */
  now: number;
};

export type RefusedForm = {
  /** Name of the form in `Page.forms`. */
  form: string;
  fields: Fields;
  /** One message for each field, by its name in the operation. */
  errors: Readonly<Record<string, string>>;
  /** What is wrong with the whole; null if the fields say it all. */
  message: string | null;
  /** Problems of a text with their positions. */
  problems: readonly SourceProblem[];
  /** What a check found in a text that would be stored all the same. */
  warnings?: readonly SourceProblem[];
};

export type Crumb = { text: string; href: string };

/** What a page shows. */
export type Content = {
  /** Of the window, without organization and product. */
  title: string;
  section: Section | null;
  /** The way from the organization to this page, both left out. */
  crumbs: readonly Crumb[];
  /** The last crumb, where it is not the title. */
  crumb?: string;
  main: Html;
  /** What identifies the object beyond doubt, for paper: a whole fingerprint or commit. */
  identity?: string | null;
  /** A column beside the page: the details of one of its rows. */
  drawer?: Html | null;
  /** The subject whose changes reload the page while it is open: see live.ts. */
  live?: { flow: string; trail: string } | { environment: string } | null;
  /** Where what is shown as of a moment is compared with the present; by default, what changed since then. */
  compareWithNow?: string;
  /** The path of what is shown at other moments instead, where this page belongs to one, such as a snapshot. */
  timePath?: string;
  /** Moments that the page knows, for the menu with the time. */
  moments?: readonly { text: string; at: number }[];
  /** What a page of the present says about itself as of a moment, in place of the sentence that all have. */
  presentNote?: string;
  /** Whether the page loads the editor for policies and templates. */
  hasEditor?: boolean;
  /** 200 unless given. */
  status?: number;
  /** Leads the browser on to this address; nothing is shown then. */
  redirect?: string;
};

/**
 * An answer without the frame, for what a page embeds. Its policy is its own: it may be framed by pages of this server,
 * and runs in a sandbox, so that nothing in it can act as the person.
 */
export type RawAnswer = {
  raw: {
    type: string;
    body: string | Buffer;
    /** Further sources that the policy permits, such as `style-src 'self'`. */
    sources?: readonly string[];
    /** 200 unless given. */
    status?: number;
  };
};

/**
 * What follows a form that succeeded: another page, which shows a message (DONE); content, of a form that changes
 * nothing; or content that can be shown only now, such as a key, at an address that shows it once (shown-once.ts).
 */
export type FormOutcome = { go: string; done?: DoneKey } | { show: Content } | { once: Content };

export type Form = {
  /** Decides whether the form is offered and accepted. */
  operation: Restricted;
  submit(visit: Visit, fields: Fields): Promise<FormOutcome>;
};

export type Page = {
  /** As OpenAPI spells it: `/{org}/flows/{flow}`. Without `{org}`, the page lies outside of organizations. */
  path: string;
  show(visit: Visit): Promise<Content | RawAnswer>;
  /**
   * What it shows as of a moment in the past: what was stored then, or the present all the same, which the page says.
   * Without it, the page says that this is not kept.
   */
  past?: "then" | "present";
  forms?: Readonly<Record<string, Form>>;
};

/** Whether an export of a file is a page. */
export const isPage = (value: unknown): value is Page =>
  typeof value === "object" && value !== null && "path" in value && "show" in value;

/** Declares a page. */
export const page = (declaration: Page): Page => declaration;

/** Declares a form by the operation that it submits to. */
export const form = (operation: Restricted, submit: Form["submit"]): Form => ({ operation, submit });

/** The messages after a form succeeded, by the value of `done` in the address. */
export const DONE = {
  saved: "Saved.",
  version_saved: "Saved as a new version. The environments that use the policy are being re-evaluated.",
  unchanged: "Nothing was changed: this is the text and description that is stored already.",
  unarchived: "The control is active again.",
  created: "Created.",
  renamed: "Renamed. The old name keeps working until something else takes it.",
  archived: "Archived. It stays readable under its new name.",
  archived_type: "Archived. Reports of this type are refused; a new version makes it active again.",
  deleted: "Deleted.",
  added: "Added.",
  removed: "Removed.",
  attached: "The policy is attached. The environment is being re-evaluated.",
  detached: "The policy is detached. The environment is being re-evaluated.",
  allowed: "The artifact is allowlisted. The environment is being re-evaluated.",
  disallowed: "The artifact is no longer allowlisted. The environment is being re-evaluated.",
  overridden: "Overridden. The trail was re-evaluated.",
  revoked: "The key is revoked. Clients that use it are refused from now on.",
  sent: "The message is queued. Its delivery appears below.",
  default_org: "This is now your default organization.",
  released: "The hold is released. It stays in the history.",
  retried: "The message is queued again.",
  password: "Your password was changed. All your other sessions were ended.",
  session: "The session was ended.",
  sessions: "All your other sessions were ended.",
  view_saved: "Saved as a view. It is in the navigation.",
  seen: "What was shown here is shown once only. Loading the page again changed nothing.",
} as const;
type DoneKey = keyof typeof DONE;
