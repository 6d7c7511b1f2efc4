/** Changes of flows, environments, controls and overrides, as the audit log has them: what no other change tells. */
import { decodePathPart } from "../../domain/network/urls.ts";
import { isListOf, isObject, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { AuditRow } from "../../store/db/audit-log.ts";
import { OVERRIDE_EVENT } from "../../store/environments/history/audited-changes.ts";
import type { RecordEvent } from "../../store/environments/history/audited-changes.ts";
import { UNREADABLE } from "../placeholders.ts";

/** @property before what was there, where the log has it: a name, or the SHA-256 of a template; `after` likewise */
export type RecordChange = {
  event: string;
  kind: "flow" | "environment" | "control" | "attestation";
  name: string;
  /** A sentence without a full stop. */
  text: string;
  by: string;
  before: string | null;
  after: string | null;
  /** The environment that became a member of a logical one. */
  member: string | null;
};

type Told = Pick<RecordChange, "kind" | "name" | "text"> & Partial<Pick<RecordChange, "before" | "after" | "member">>;
type Detail = Readonly<Record<string, unknown>>;

const textIn = (detail: Detail, name: string): string => (isText(detail[name]) ? (detail[name] as string) : "");
/** The parts of the path that the entry is about. */
const partsOf = ({ target }: AuditRow): string[] => target.split("/").map(decodePathPart);

/** What each event says; null for an entry that says nothing of these. */
const TELLERS: Readonly<Record<RecordEvent, (detail: Detail, row: AuditRow) => Told | null>> = {
  "flow.applied": (detail) => {
    const name = textIn(detail, "flow");
    if (detail["created"] === true) return created("flow", name);
    const after = textIn(detail, "template_after");
    const before = textIn(detail, "template_before") || null;
    return after === ""
      ? null
      : { kind: "flow", name, text: `The template of flow ${name} was changed`, before, after };
  },
  "flow.archived": (detail) => archived("flow", textIn(detail, "flow"), detail),
  "flow.renamed": (detail) => renamed("flow", detail),
  "environment.put": (detail) =>
    detail["created"] === true ? created("environment", textIn(detail, "environment")) : null,
  "environment.archived": (detail) => archived("environment", textIn(detail, "environment"), detail),
  "environment.renamed": (detail) => renamed("environment", detail),
  "environment.joined": (detail) => {
    const [name, member] = [textIn(detail, "environment"), textIn(detail, "member")];
    return detail["added"] === true
      ? { kind: "environment", name, text: `${member} became a member of ${name}`, member }
      : null;
  },
  // Policies read tags of flows only.
  "tags.changed": (detail, row) => {
    const [kind, name = ""] = partsOf(row).slice(-2);
    return kind === "flow" ? { kind, name, text: `Tags of flow ${name}: ${tagWords(detail)}` } : null;
  },
  // The path of a new control does not have its identifier.
  "control.created": (detail) => control(textIn(detail, "control"), "created"),
  "control.edited": (_detail, row) => control(identifierIn(row), "changed"),
  "control.archived": (_detail, row) => control(identifierIn(row), "archived"),
  "control.unarchived": (_detail, row) => control(identifierIn(row), "restored"),
  [OVERRIDE_EVENT]: (detail) => {
    const name = textIn(detail, "attestation_name");
    const verdict = detail["is_compliant"] === true ? "compliant" : "non-compliant";
    return { kind: "attestation", name, text: `Attestation ${name} was overridden as ${verdict}` };
  },
};

export const isOfRecord = (row: AuditRow): row is AuditRow & { event: RecordEvent } =>
  Object.hasOwn(TELLERS, row.event);

const NOUNS = { flow: "Flow", environment: "Environment" } as const;

const created = (kind: keyof typeof NOUNS, name: string): Told => ({
  kind,
  name,
  text: `${NOUNS[kind]} ${name} was created`,
});

const archived = (kind: keyof typeof NOUNS, name: string, detail: Detail): Told => ({
  kind,
  name,
  text: `${NOUNS[kind]} ${name} was archived`,
  before: name,
  after: textIn(detail, "archived_as") || null,
});

function renamed(kind: keyof typeof NOUNS, detail: Detail): Told {
  const [before, after] = [textIn(detail, "from"), textIn(detail, "to")];
  const text = `${NOUNS[kind]} ${before} was renamed to ${after}`;
  return { kind, name: after, text, before, after };
}

const control = (name: string, done: string): Told => ({ kind: "control", name, text: `Control ${name} was ${done}` });

const identifierIn = (row: AuditRow): string =>
  partsOf(row)
    .filter((part) => part !== "" && !/^(?:un)?archive$/.test(part))
    .at(-1) ?? "";

function tagWords(detail: Detail): string {
  const set = isObject(detail["set"]) ? Object.entries(detail["set"]) : [];
  const removed = isListOf(isText)(detail["removed"]) ? (detail["removed"] as string[]) : [];
  return [...set.map(([key, value]) => `${key} is ${String(value)}`), ...removed.map((key) => `${key} removed`)].join(
    ", ",
  );
}

/** What a damaged entry says is not known, so it is listed even where it may say nothing. */
const unreadable = (row: AuditRow): Told => ({
  kind: kindOf(row),
  name: UNREADABLE,
  text: "A change cannot be read, because its entry in the audit log is damaged",
});

function kindOf({ event }: AuditRow): RecordChange["kind"] {
  const [subject] = event.split(".");
  return subject === "environment" || subject === "control" || subject === "attestation" ? subject : "flow";
}

/** Null for an entry that changed nothing of these. @param by who changed it, by full name where there is one */
export function toRecordChange(row: AuditRow & { event: RecordEvent }, by: string): RecordChange | null {
  const detail = readStoredJsonOrNull(row.detail_json, isObject);
  const isAboutPath = kindOf(row) === "control" && row.event !== "control.created";
  const isDamaged = detail === null && row.detail_json !== null && !isAboutPath;
  const told = isDamaged ? unreadable(row) : TELLERS[row.event](detail ?? {}, row);
  return told && { before: null, after: null, member: null, ...told, event: row.event, by };
}
