/**
 * As which user the server runs, or would: that of the running process, else that of the systemd unit, else the owner
 * of the data directory. What root may read and write says nothing about it.
 */
import { statSync } from "node:fs";
import { nearestExisting } from "./check.ts";
import type { Machine } from "./check.ts";
import type { ServerProcess } from "./process.ts";

export type ServerUser = {
  uid: number;
  gid: number;
  /** Supplementary groups. */
  groups: readonly number[];
  /** null for a user without an entry in /etc/passwd, such as a dynamic one. */
  name: string | null;
  /** How it is known: the end of a sentence that begins with the user. */
  source: string;
};

/** What the unit of a service says about its user and its files. */
export type Unit = {
  name: string;
  user: string | null;
  group: string | null;
  supplementaryGroups: readonly string[];
  hasDynamicUser: boolean;
  /** The argument of --data. */
  data: string | null;
  /** The files that systemd reads as root and passes to the service. */
  credentials: readonly string[];
  /** Directories below /run that systemd creates at the start. */
  runtimeDirectories: readonly string[];
  /** Whether a socket unit listens for it. */
  hasSocket: boolean;
};

/** The unit in this file, or else the one that `assay systemd` prints. */
const DEFAULT_UNIT = "assay.service";

/** "998 (assay)" */
export const userText = ({ uid, name }: Pick<ServerUser, "uid" | "name">): string =>
  name === null ? String(uid) : `${uid} (${name})`;

/** The unit of the running server, or the one that would serve the directory; null where there is none. */
export function findUnit(directory: string, server: ServerProcess | null, machine: Machine): Unit | null {
  const cgroup = server?.pid == null ? null : machine.readText(`/proc/${server.pid}/cgroup`);
  const unitName = /\/([^/\n]+\.service)$/m.exec(cgroup ?? "")?.[1];
  const text = machine.unitText(unitName ?? DEFAULT_UNIT);
  if (text === null) return null;
  const unit = parseUnit(unitName ?? DEFAULT_UNIT, text);
  const serves = unit.data !== null && nearestExisting(unit.data) === nearestExisting(directory);
  return unitName !== undefined || serves ? unit : null;
}

/** Reads a unit file with its drop-ins, one after the other. A list begins anew after an empty value. */
export function parseUnit(name: string, text: string): Unit {
  const values = new Map<string, string[]>();
  for (const line of text.replaceAll(/\\\n/g, " ").split("\n")) {
    const [, key = "", value = ""] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
    if (key === "") continue;
    if (value === "") values.delete(key);
    else values.set(key, [...(values.get(key) ?? []), value]);
  }
  const last = (key: string): string | null => values.get(key)?.at(-1) ?? null;
  const words = (key: string): string[] => (values.get(key) ?? []).flatMap((value) => value.split(/\s+/));
  const command = splitCommand(last("ExecStart") ?? "");
  const data = command.indexOf("--data");
  return {
    name,
    user: last("User"),
    group: last("Group"),
    supplementaryGroups: words("SupplementaryGroups"),
    hasDynamicUser: /^(?:yes|true|on|1)$/i.test(last("DynamicUser") ?? ""),
    data: data < 0 ? null : (command[data + 1] ?? null),
    credentials: (values.get("LoadCredential") ?? []).map((value) => unescapePath(value.replace(/^[^:]*:/, ""))),
    runtimeDirectories: words("RuntimeDirectory").map((path) => `/run/${path}`),
    hasSocket: words("Requires").some((unit) => unit.endsWith(".socket")),
  };
}

/** The words of a command line of a unit, as `assay systemd` quotes them. */
const splitCommand = (line: string): string[] =>
  [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) =>
    (quoted?.replaceAll(/\\(.)/g, "$1") ?? plain ?? "").replaceAll("%%", "%").replaceAll("$$", "$"),
  );

const unescapePath = (text: string): string =>
  text.replaceAll("\\x20", " ").replaceAll("\\\\", "\\").replaceAll("%%", "%");

type Facts = { server: ServerProcess | null; unit: Unit | null };

/** The user of the server on a directory that exists. */
export function findServerUser(directory: string, { server, unit }: Facts, machine: Machine): ServerUser {
  return userOfProcess(server, machine) ?? (unit && userOfUnit(unit, machine)) ?? ownerOf(directory, { unit, machine });
}

function userOfProcess(server: ServerProcess | null, { readText }: Machine): ServerUser | null {
  const status = server?.pid == null ? null : readText(`/proc/${server.pid}/status`);
  const ids = (label: string): number[] =>
    (new RegExp(`^${label}:(.*)$`, "m").exec(status ?? "")?.[1] ?? "").trim().split(/\s+/).filter(Boolean).map(Number);
  // Real, effective, saved, and that of the file system.
  const [uid, gid] = [ids("Uid")[1], ids("Gid")[1]];
  if (server === null || uid === undefined || gid === undefined) return null;
  const name = findAccount(uid, readText)?.name ?? null;
  return { uid, gid, groups: ids("Groups"), name, source: `as which process ${server.pid} serves the directory` };
}

/** null for a dynamic user, whose number only the directory has. */
function userOfUnit(unit: Unit, { readText }: Machine): ServerUser | null {
  if (unit.hasDynamicUser) return null;
  const account = findAccount(unit.user ?? "root", readText);
  if (!account) return null;
  const gid = (unit.group === null ? null : findGroup(unit.group, readText)) ?? account.gid;
  const groups = [...memberships(account.name, readText), ...groupsOf(unit, readText)];
  return { uid: account.uid, gid, groups, name: account.name, source: `the user of ${unit.name}` };
}

function ownerOf(
  directory: string,
  { unit, machine: { readText } }: { unit: Unit | null; machine: Machine },
): ServerUser {
  const { uid, gid } = statSync(directory);
  const account = findAccount(uid, readText);
  return {
    uid,
    gid: account?.gid ?? gid,
    groups: [...(account ? memberships(account.name, readText) : []), ...(unit ? groupsOf(unit, readText) : [])],
    name: account?.name ?? null,
    source:
      uid === 0 && unit?.hasDynamicUser
        ? `the owner of the data directory until ${unit.name} starts and gives it to its dynamic user`
        : "the owner of the data directory",
  };
}

type ReadText = Machine["readText"];
type Account = { name: string; uid: number; gid: number };

/** By number or name; a unit may name a number, too. */
function findAccount(user: number | string, readText: ReadText): Account | null {
  for (const line of (readText("/etc/passwd") ?? "").split("\n")) {
    const [name = "", , uid, gid] = line.split(":");
    if (gid !== undefined && (name === user || uid === String(user)))
      return { name, uid: Number(uid), gid: Number(gid) };
  }
  return null;
}

const listGroups = (readText: ReadText): { name: string; gid: number; members: string[] }[] =>
  (readText("/etc/group") ?? "").split("\n").flatMap((line) => {
    const [name = "", , gid, members = ""] = line.split(":");
    return gid === undefined ? [] : [{ name, gid: Number(gid), members: members.split(",") }];
  });

const findGroup = (group: string, readText: ReadText): number | null =>
  listGroups(readText).find(({ name, gid }) => name === group || String(gid) === group)?.gid ?? null;

const memberships = (name: string, readText: ReadText): number[] =>
  listGroups(readText).flatMap(({ gid, members }) => (members.includes(name) ? [gid] : []));

/** The groups that a unit adds. */
const groupsOf = ({ group, supplementaryGroups }: Unit, readText: ReadText): number[] =>
  [...(group === null ? [] : [group]), ...supplementaryGroups].flatMap((one) => findGroup(one, readText) ?? []);
