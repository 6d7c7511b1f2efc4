/** What changed in a day in words: subject, sentences and rows of the message. */
import type { ChangeListValue, ChangeValue } from "../contract/changes/shapes.ts";
import type { Urls } from "../contract/urls.ts";
import { groupCauses } from "../domain/compliance/cause-words.ts";
import type { ChangesMail, DayMessage, MailRow, MailSection, MailTone } from "../domain/notification/changes-mail.ts";
import { formatDailyTime } from "../domain/notification/daily-time.ts";
import type { DailyTime } from "../domain/notification/daily-time.ts";
import type { MessageSender } from "../domain/notification/render.ts";
import { timestampOf } from "../domain/notification/webhook.ts";
import { splitName } from "../domain/snapshot/comparison.ts";
import { formatMinute } from "../domain/time.ts";

/** An environment in which something changed; `before` and `after` are its verdicts, `first` and `last` snapshots. */
export type ChangedPlace = {
  name: string;
  before: boolean | null;
  after: boolean | null;
  first: number;
  last: number;
  counts: ChangeListValue["counts"];
  total: number;
  /** Epoch seconds before which changes were too many to be read; null: all were. */
  since: number | null;
  changes: readonly ChangeValue[];
};

/** Gmail cuts a mail off at some 100 kB, which so many rows with long names just do not reach. */
const MAX_SECTIONS = 10;
const MAX_ROWS = 8;
/** Names in the subject, and in a row that several changes share. */
const MAX_NAMES = 2;
const MAX_ALIKE = 3;
const MAX_CAUSES = 3;
const MAX_AUTHORS = 3;

type Sender = MessageSender & { urls: Urls };
type Period = { from: number; to: number };

export function composeDay(
  sender: Sender,
  { from, to, daily, places }: Period & { daily: DailyTime; places: readonly ChangedPlace[] },
): DayMessage {
  const { urls, org, action, number } = sender;
  const sorted = [...places].sort((a, b) => rankOf(a) - rankOf(b));
  const verdict = verdictOf(sorted);
  const query = {
    from: isoOf(from),
    to: isoOf(to),
    ...(places.length === 1 ? { environment: places[0]?.name ?? "" } : {}),
  };
  const further = sorted.length - MAX_SECTIONS;
  const mail: ChangesMail = {
    subject: `${verdict} - ${org}, ${dayOf(to)}`,
    finding: verdict,
    summary: `${org}, ${formatMinute(from)} to ${formatMinute(to)}. ${countsOf(sorted)}. All times are UTC.`,
    sections: sorted.slice(0, MAX_SECTIONS).map((place) => sectionOf(sender, place, query)),
    rest: further > 0 ? `${further} more ${further === 1 ? "environment" : "environments"} changed.` : "",
    button: { text: "Open all changes", url: urls.changesPage(org, query) },
    footer:
      `Sent every day at ${formatDailyTime(daily)} by action ${action} (number ${number}) of organization ${org}. ` +
      "Nothing is sent when nothing changed.",
    stop: { text: "Change or stop this message", url: urls.actionPage(org, number) },
  };
  return {
    mail,
    facts: {
      timestamp: timestampOf(to),
      org,
      description: verdict,
      from: timestampOf(from),
      to: timestampOf(to),
      html_url: mail.button.url,
      api_url: urls.changesApi(org, query),
    },
  };
}

const isoOf = (at: number): string => `${new Date(at * 1000).toISOString().slice(0, 19)}Z`;
const timeOf = (at: number): string => new Date(at * 1000).toISOString().slice(11, 16);
/** `Fri 20 Nov`. */
const dayOf = (at: number): string => {
  const [day = "", date = "", month = ""] = new Date(at * 1000).toUTCString().replace(",", "").split(" ");
  return `${day} ${Number(date)} ${month}`;
};
const momentOf = (at: number): string => `${dayOf(at)} ${timeOf(at)}`;
const plural = (count: number, word: string): string =>
  `${count.toLocaleString("en-US")} ${word}${count === 1 ? "" : "s"}`;

const turnOf = ({ before, after }: ChangedPlace): "failing" | "recovered" | "still failing" | null =>
  after === false ? (before === false ? "still failing" : "failing") : after && before === false ? "recovered" : null;
const RANKS = ["failing", "recovered", "still failing", null];
const rankOf = (place: ChangedPlace): number => RANKS.indexOf(turnOf(place));

/** `production-eu turned non-compliant, staging recovered`. */
function verdictOf(places: readonly ChangedPlace[]): string {
  const news = [
    sentenceOf(places, (place) => turnOf(place) === "failing", "turned non-compliant"),
    sentenceOf(places, (place) => turnOf(place) === "recovered", "recovered"),
    sentenceOf(places, ({ counts }) => (counts.stale ?? 0) > 0, "stopped reporting"),
  ].filter((sentence) => sentence !== null);
  if (news.length > 0) return news.join(", ");
  const still = sentenceOf(places, (place) => turnOf(place) === "still failing", "still non-compliant");
  return still ?? `No environment has another verdict: ${countsOf(places)}`;
}

/** `staging and demo recovered`; null where the test holds for none. */
function sentenceOf(
  places: readonly ChangedPlace[],
  holds: (place: ChangedPlace) => boolean,
  what: string,
): string | null {
  const names = places.filter(holds).map(({ name }) => name);
  if (names.length === 0) return null;
  const more = names.length - MAX_NAMES;
  const shown = names.slice(0, MAX_NAMES);
  return `${more > 0 ? `${shown.join(", ")} and ${more} more` : shown.join(" and ")} ${what}`;
}

type Kind = keyof ChangeListValue["counts"];
const KIND_WORDS: readonly (readonly [Kind, string])[] = [
  ["verdict", "verdict"],
  ["upgraded", "upgrade"],
  ["started", "start"],
  ["exited", "exit"],
  ["scaled", "scaling"],
  ["provenance", "new provenance record"],
  ["policy", "policy change"],
  ["allowlist", "allowed artifact"],
  ["stale", "environment without a report"],
];

/** `9 upgrades, 4 policy changes`. */
function countsOf(places: readonly ChangedPlace[]): string {
  return KIND_WORDS.flatMap(([kind, word]) => {
    const total = places.reduce((sum, { counts }) => sum + (counts[kind] ?? 0), 0);
    if (total === 0) return [];
    return kind === "stale" && total > 1 ? [`${total} environments without a report`] : [plural(total, word)];
  }).join(", ");
}

function sectionOf(sender: Sender, place: ChangedPlace, query: Readonly<Record<string, string>>): MailSection {
  const { urls, org } = sender;
  const { name, first, last, since } = place;
  const shown = place.changes.filter((change) => !isSaidElsewhere(change, place.changes));
  const groups = groupAlike(shown);
  const rows = groups.slice(0, MAX_ROWS);
  // What is said elsewhere is not missing.
  const counted = rows.reduce((sum, group) => sum + group.length, 0) + place.changes.length - shown.length;
  return {
    title: name,
    state: stateOf(place),
    note: [
      first === last || first === 0 ? (last === 0 ? "" : `#${last}`) : `#${first} to #${last}`,
      since === null ? "" : `changes before ${momentOf(since)} are on the page only`,
    ]
      .filter((part) => part !== "")
      .join(", "),
    rows: rows.map((group) => rowOf(sender, group, name)),
    omitted: Math.max(0, place.total - counted),
    url: urls.changesPage(org, { ...query, environment: name }),
  };
}

function stateOf(place: ChangedPlace): MailSection["state"] {
  const { after } = place;
  if (after === null) return null;
  const word = {
    failing: "Turned non-compliant",
    recovered: "Compliant again",
    "still failing": "Still non-compliant",
  };
  const turn = turnOf(place);
  return { tone: after ? "good" : "bad", word: turn === null ? "Compliant" : word[turn] };
}

const isSameArtifact = (one: ChangeValue, other: ChangeValue): boolean =>
  one !== other &&
  one.snapshot_index === other.snapshot_index &&
  one.environment_name === other.environment_name &&
  one.artifact?.fingerprint === other.artifact?.fingerprint &&
  one.artifact?.name === other.artifact?.name;

const isFailing = ({ kind, compliant }: ChangeValue): boolean =>
  compliant?.after === false && (kind === "verdict" || kind === "started");

/** The verdict on an environment stands in its head, and that on an artifact says what it replaced. */
function isSaidElsewhere(change: ChangeValue, all: readonly ChangeValue[]): boolean {
  if (change.kind === "verdict" && change.artifact === null)
    return all.some(
      (one) =>
        one.artifact !== null &&
        one.snapshot_index === change.snapshot_index &&
        one.environment_name === change.environment_name &&
        (isFailing(one) || one.kind === "verdict"),
    );
  return change.kind === "upgraded" && all.some((one) => one.kind === "verdict" && isSameArtifact(one, change));
}

const FOLDED: Readonly<Partial<Record<Kind, string>>> = {
  upgraded: "upgrade",
  started: "start",
  exited: "exit",
  scaled: "scaling",
  provenance: "artifact with other provenance",
};

/** Changes of one kind in one snapshot share a row; what fails stands by itself. */
function groupAlike(changes: readonly ChangeValue[]): ChangeValue[][] {
  const groups = Map.groupBy(changes, (change) =>
    FOLDED[change.kind] === undefined || isFailing(change)
      ? change.id
      : JSON.stringify([change.kind, change.environment_name, change.snapshot_index]),
  );
  return [...groups.values()];
}

function rowOf(sender: Sender, group: readonly ChangeValue[], place: string): MailRow {
  const change = group[0] as ChangeValue;
  const { kind, artifact, compliant, timestamp, environment_name: at } = change;
  const member = at === null || at === place ? "" : ` in ${at}`;
  const when = momentOf(timestamp);
  const plain = { tone: "plain" as MailTone, why: [], detail: "", links: [], when };
  if (kind === "verdict" || isFailing(change)) return { ...plain, ...verdictRow(sender, change, member) };
  if (FOLDED[kind] !== undefined && artifact !== null) return { ...plain, ...foldedRow(group, member) };
  if (kind === "allowlist" && change.allowlist) {
    const end = change.allowlist.expires_at;
    const until = end === null ? ", no end" : ` until ${formatMinute(end)}`;
    return {
      ...plain,
      title: `${artifact?.name ?? ""} allowed${until}${byOf(change)}`,
      detail: change.allowlist.reason,
    };
  }
  if (kind === "stale") {
    const last = change.last_reported_at;
    return {
      ...plain,
      tone: "wait",
      title: change.text,
      detail: last === null ? "" : `Last report ${formatMinute(last)}`,
    };
  }
  return {
    ...plain,
    title: `${change.text}${byOf(change)}`,
    detail: change.policy?.comment ?? "",
    tone: compliant?.after === false ? "bad" : "plain",
  };
}

const byOf = ({ by }: ChangeValue): string => (by ? ` by ${by}` : "");

function verdictRow({ urls, org }: Sender, change: ChangeValue, member: string): Partial<MailRow> & { title: string } {
  const { artifact, compliant, causes, further_causes: further, replaced, commits, build } = change;
  const after = compliant?.after ?? null;
  const { environment_name: environment, snapshot_index: index } = change;
  const isArtifact = artifact !== null && artifact.fingerprint !== "" && environment !== null && index !== null;
  const why = isArtifact
    ? [
        {
          text: after === false ? "Why it fails" : "Why",
          url: urls.whyPage(org, { environment, snapshot: String(index), fingerprint: artifact.fingerprint }),
        },
      ]
    : [{ text: `Snapshot ${index ?? ""}`, url: change.html_url }];
  const compare = commits?.compare_url ?? build?.compare_url ?? null;
  const state = after === null ? "has no verdict any more" : after ? "is compliant" : "";
  const sentences = groupCauses(causes).map(({ subjects, rest }) => {
    const subject = joinNames(subjects);
    return { subject, text: `${subject}${rest}` };
  });
  const shown = sentences.slice(0, MAX_CAUSES);
  const more = further + sentences.length - shown.length;
  return {
    tone: after === false ? "bad" : after ? "good" : "plain",
    title: `${artifact?.name ?? "The environment"}${member}${state === "" ? "" : ` ${state}`}`,
    why: after === false ? [...shown, ...(more > 0 ? [{ subject: "", text: `${more} more` }] : [])] : [],
    detail: [
      after === true && shown.length > 0 ? `No longer: ${shown.map(({ text }) => text).join("; ")}` : "",
      replaced ? `replaced ${replaced.version}` : "",
      commits && commits.total > 0 ? `came with ${commitsOf(commits)}` : "",
    ]
      .filter((part) => part !== "")
      .join(", "),
    links: [
      ...why,
      ...(compare === null
        ? []
        : [
            {
              text:
                commits && commits.total > 0
                  ? `The ${commits.total === 1 ? "commit" : plural(commits.total, "commit")}`
                  : "Commits",
              url: compare,
            },
          ]),
    ],
  };
}

const joinNames = (names: readonly string[]): string =>
  names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** `7 commits by dev-lead and Mina Okafor`. */
function commitsOf({ total, is_complete: isComplete, items }: NonNullable<ChangeValue["commits"]>): string {
  if (total === 0) return "";
  const authors = [...new Set(items.flatMap(({ author }) => author ?? []))];
  const more = authors.length - MAX_AUTHORS;
  const shown = authors.slice(0, MAX_AUTHORS);
  const people = more > 0 ? `${shown.join(", ")} and ${more} more` : joinNames(shown);
  return `${isComplete ? "" : "more than "}${plural(total, "commit")}${people === "" ? "" : ` by ${people}`}`;
}

/** Upgrades, starts, exits or scalings of one snapshot. */
function foldedRow(group: readonly ChangeValue[], member: string): Partial<MailRow> & { title: string } {
  const [first] = group as [ChangeValue];
  const words = group.slice(0, MAX_ALIKE).map(wordsOf);
  const more = group.length - words.length;
  const names = more > 0 ? `${words.join(", ")} and ${more} more` : words.join(", ");
  const isSingle = group.length === 1;
  const compare = first.commits?.compare_url ?? first.build?.compare_url ?? null;
  return {
    title: `${isSingle ? names : `${plural(group.length, FOLDED[first.kind] ?? "")}: ${names}`}${member}`,
    detail: isSingle && first.commits ? commitsOf(first.commits) : allCommitsOf(group),
    links: [
      ...(isSingle && compare !== null ? [{ text: "Commits", url: compare }] : []),
      { text: `Snapshot ${first.snapshot_index ?? ""}`, url: first.html_url },
    ],
  };
}

/** How many commits several upgrades brought, each counted once: services of one repository share them. */
function allCommitsOf(group: readonly ChangeValue[]): string {
  const all = group.flatMap(({ commits }) => commits ?? []);
  const shas = new Set(all.flatMap(({ items }) => items.map(({ sha1 }) => sha1)));
  const isWhole = all.every(({ is_complete, items, total }) => is_complete && items.length === total);
  return shas.size === 0 ? "" : `${isWhole ? "" : "at least "}${plural(shas.size, "commit")}`;
}

function wordsOf({ kind, artifact, replaced }: ChangeValue): string {
  if (artifact === null) return "";
  const { name, version, instances_before: was, instances_after: now } = artifact;
  switch (kind) {
    case "upgraded":
      return `${splitName(name).service} ${replaced?.version ?? ""} to ${version}`;
    case "scaled":
      return `${name} ${was} to ${now} instances`;
    case "started":
      return `${name} started`;
    case "exited":
      return `${name} exited`;
    default:
      return `${name} got other provenance`;
  }
}
