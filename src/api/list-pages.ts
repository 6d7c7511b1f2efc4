/**
 * The lists of the web interface, and the parameters by which each of them filters and sorts. A saved view is the name
 * of a list with values of its parameters, so it is checked like any other input, and no address is ever stored.
 * test/web/views.test.ts compares these shapes with the filters of the pages.
 */
import { Type } from "typebox";
import type { TObject } from "typebox";
import { FILTER_WORD } from "../domain/attestation/kinds.ts";
import { STATES } from "../domain/compliance/artifact.ts";
import { TIME_EXPRESSION_PATTERN } from "../domain/snapshot/expression.ts";
import { Closed, Matching, OneOf } from "../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../store/environments/environments.ts";

/** Of one value: longer names occur in no list. */
export const MAX_VALUE_CHARS = 256;

const text = (description?: string) =>
  Type.Optional(
    Type.String({ minLength: 1, maxLength: MAX_VALUE_CHARS, ...(description === undefined ? {} : { description }) }),
  );
const word = <const T extends readonly string[]>(...words: T) => Type.Optional(OneOf(words));
const pattern = (source: string, description: string) =>
  Type.Optional(Matching(source, { maxLength: MAX_VALUE_CHARS, description }));
const named = (kind: string) =>
  Type.String({ minLength: 1, maxLength: MAX_VALUE_CHARS, description: `Name of ${kind} that exists` });

const DATE = String.raw`\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])`;
const day = () => pattern(`^${DATE}$`, "A day in UTC, `YYYY-MM-DD`");
const moment = () =>
  pattern(String.raw`^${DATE}(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?Z?)?$`, "A day, or a time, in UTC");
const time = () => pattern(TIME_EXPRESSION_PATTERN, "A day, a time, or a duration before now");
const tag = () => text("`key` or `key:value`; several are separated by commas");
const state = () => Type.Optional(OneOf(STATES));

/** The parameters of each list. Those named in OBJECTS are names of records. */
export const LIST_PAGES = {
  changes: Closed({
    from: time(),
    to: time(),
    environment: Type.Optional(named("an environment")),
    kind: word("verdicts", "upgrades", "running", "rules", "people", "stale"),
    view: word("time"),
  }),
  deployments: Closed({
    environment: Type.Optional(named("an environment")),
    repo: text(),
    from: moment(),
    to: moment(),
  }),
  flows: Closed({ search: text(), tag: tag(), sort: word("name") }),
  trails: Closed({ flow: named("a flow"), search: text(), state: state() }),
  "flow-artifacts": Closed({ flow: named("a flow"), search: text(), state: state() }),
  environments: Closed({
    name: text(),
    state: word("NON-COMPLIANT", "UNKNOWN", "COMPLIANT"),
    type: Type.Optional(OneOf(ENVIRONMENT_TYPES)),
    tag: tag(),
    sort: word("state", "name", "last_changed_at", "last_modified_at"),
    direction: word("asc", "desc"),
  }),
  running: Closed({
    environment: named("an environment"),
    search: text(),
    show: word("failing", "compliant", "unknown", "changed"),
  }),
  events: Closed({
    environment: named("an environment"),
    search: text(),
    kind: word("started", "exited", "changed"),
    days: word("1", "7", "30", "90"),
    repo: text(),
  }),
  artifacts: Closed({
    search: text(),
    state: state(),
    flow: Type.Optional(named("a flow")),
    repo: text(),
  }),
  attestations: Closed({
    name: text(),
    match: word("exact", "regex"),
    type: pattern(FILTER_WORD, "A type of attestations"),
    is_compliant: word("true", "false"),
    flow: Type.Optional(named("a flow")),
    since: word("1d", "7d", "30d", "90d"),
    from: day(),
    to: day(),
    commit: pattern("^[a-fA-F0-9]{40}$", "The whole id of a commit"),
    attestation_id: text(),
  }),
  "attestation-types": Closed({ search: text() }),
  policies: Closed({ search: text() }),
  controls: Closed({ search: text(), tag: tag(), sort: word("desc"), tab: word("archived") }),
  decisions: Closed({
    control: named("a control"),
    flow: Type.Optional(named("a flow")),
    compliance: word("yes", "no"),
    from: moment(),
    to: moment(),
    sort: word("asc"),
  }),
  repos: Closed({ search: text(), provider: word("github", "gitlab", "bitbucket", "azure-devops"), tag: tag() }),
  actions: Closed({ search: text() }),
  "audit-log": Closed({
    actor: text(),
    event: pattern("^[a-z_]+(?:\\.[a-z_]+)?$", "An event, or the first word of several"),
    target: text(),
    from: moment(),
    to: moment(),
  }),
} as const satisfies Readonly<Record<string, TObject>>;

export type ListName = keyof typeof LIST_PAGES;
export const LIST_NAMES = Object.keys(LIST_PAGES) as readonly ListName[];

/** Parameters of one list, as texts. */
export type ListParameters = Readonly<Record<string, string>>;

/** The parameters that name records, which may be archived or renamed later. */
export const OBJECTS = ["flow", "environment", "control"] as const;
export type ObjectParameter = (typeof OBJECTS)[number];
