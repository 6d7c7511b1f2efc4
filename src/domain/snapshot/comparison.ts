/**
 * What differs between two snapshots, for people: verdicts that turned, upgrades paired by service, what started, what
 * exited, what was scaled. Pure; tens of thousands of artifacts take some ten milliseconds.
 */

/** The kinds of changes to artifacts, in the order in which they matter. Policies stand between the first two. */
export const DIFF_KINDS = ["verdict", "policy", "upgraded", "started", "exited", "scaled", "unchanged"] as const;
export type DiffKind = (typeof DIFF_KINDS)[number];
type ArtifactChangeKind = Exclude<DiffKind, "policy">;

/** An artifact that runs in one of the snapshots. `place`: the member in which it runs, where members are compared. */
export type Running = {
  /** Key of its row. */
  id: number;
  name: string;
  /** "" where the reporter could not resolve the image; such artifacts are compared by name. */
  fingerprint: string;
  /** Number of instances. */
  now: number;
  compliant: boolean | null;
  place: string;
};

export type ArtifactChange<T extends Running = Running> = {
  kind: ArtifactChangeKind;
  before: T | null;
  after: T | null;
};

/** The service of an image, and its version: `registry/acme/web:2.41.0` is `registry/acme/web` and `2.41.0`. */
export function splitName(name: string): { service: string; version: string | null } {
  const end = endOfVersion(name);
  const start = endOfService(name, end);
  return { service: name.slice(0, start), version: start === end ? null : name.slice(start + 1, end) };
}

// Without a regular expression and what it allocates: there may be ten thousand names.
const endOfVersion = (name: string): number => {
  const digest = name.lastIndexOf("@sha256:");
  return digest > 0 && HEX.test(name.slice(digest + "@sha256:".length)) ? digest : name.length;
};
const HEX = /^[0-9a-f]+$/;

/** The position of the colon before the version; `end` where there is none. */
function endOfService(name: string, end: number): number {
  const colon = name.lastIndexOf(":", end - 1);
  if (colon < 1 || colon === end - 1) return end;
  const [slash, at] = [name.indexOf("/", colon), name.indexOf("@", colon)];
  return (slash > 0 && slash < end) || (at > 0 && at < end) ? end : colon;
}

const serviceOf = (row: Running): string =>
  inPlace(row, row.name.slice(0, endOfService(row.name, endOfVersion(row.name))));

/** What people call the version of an artifact: its tag, or the beginning of its fingerprint. */
export const versionOf = ({ name, fingerprint }: Pick<Running, "name" | "fingerprint">): string =>
  splitName(name).version ?? (fingerprint === "" ? "" : fingerprint.slice(0, 7));

type Changes<T extends Running> = Record<ArtifactChangeKind, ArtifactChange<T>[]>;

/**
 * Compares what runs in two snapshots; each list has what fails afterwards first, then goes by name. An artifact whose
 * verdict turned is in `verdict`, and in `upgraded` or `scaled`, too, if it is one of these.
 */
export function compareSnapshotRows<T extends Running>(before: readonly T[], after: readonly T[]): Changes<T> {
  const changes: Changes<T> = { verdict: [], upgraded: [], started: [], exited: [], scaled: [], unchanged: [] };
  const [old, young] = [joinByKey(before), joinByKey(after)];
  const exited: T[] = [];
  for (const one of old.values()) if (!young.has(keyOf(one))) exited.push(one);
  const started: T[] = [];
  for (const one of young.values()) {
    const previous = old.get(keyOf(one));
    if (previous === undefined) {
      started.push(one);
      continue;
    }
    const isTurned = previous.compliant !== one.compliant;
    if (isTurned) changes.verdict.push({ kind: "verdict", before: previous, after: one });
    if (previous.now !== one.now) changes.scaled.push({ kind: "scaled", before: previous, after: one });
    else if (!isTurned) changes.unchanged.push({ kind: "unchanged", before: previous, after: one });
  }
  const pairs = pairByService(exited, started);
  for (const pair of pairs.upgraded) {
    changes.upgraded.push({ kind: "upgraded", ...pair });
    if (pair.before.compliant !== pair.after.compliant) changes.verdict.push({ kind: "verdict", ...pair });
  }
  for (const after of pairs.started) changes.started.push({ kind: "started", before: null, after });
  for (const before of pairs.exited) changes.exited.push({ kind: "exited", before, after: null });
  for (const kind of Object.keys(changes) as ArtifactChangeKind[]) changes[kind].sort(byUrgency);
  return changes;
}

/** A fingerprint is one artifact, whatever its names; of several rows the one that fails counts, and all instances. */
function joinByKey<T extends Running>(rows: readonly T[]): Map<string, T> {
  const joined = new Map<string, T>();
  for (const row of rows) {
    const key = keyOf(row);
    const known = joined.get(key);
    if (known === undefined) joined.set(key, row);
    else {
      const chosen =
        rankOf(row) < rankOf(known) || (rankOf(row) === rankOf(known) && row.name < known.name) ? row : known;
      joined.set(key, { ...chosen, now: known.now + row.now });
    }
  }
  return joined;
}

/** What makes rows one artifact. */
export const artifactKey = ({ fingerprint, name }: Pick<Running, "fingerprint" | "name">): string =>
  fingerprint === "" ? `:${name}` : fingerprint;

const keyOf = (row: Running): string => inPlace(row, artifactKey(row));

const inPlace = ({ place }: Running, text: string): string => (place === "" ? text : `${place} ${text}`);

const rankOf = ({ compliant }: Running): number => (compliant === false ? 0 : compliant === null ? 1 : 2);

type Pairs<T> = { upgraded: { before: T; after: T }[]; started: T[]; exited: T[] };

/** The upgrades, starts and exits among what one snapshot changed; what exited has `now` 0, what started `was` 0. */
export const pairUpgrades = <T extends Running & { was: number }>(changed: readonly T[]): Pairs<T> =>
  pairByService(
    changed.filter(({ now }) => now === 0).sort(byName),
    changed.filter(({ was, now }) => was === 0 && now > 0).sort(byName),
  );

/**
 * Of one service, each artifact that started takes the place of one that exited, in the order of their names. Only
 * those are sorted: most of ten thousand are of a service that only one of the sides has.
 */
function pairByService<T extends Running>(exited: readonly T[], started: readonly T[]): Pairs<T> {
  if (exited.length === 0 || started.length === 0) return { upgraded: [], started: [...started], exited: [...exited] };
  const leaving = Map.groupBy(exited, serviceOf);
  const arriving: T[] = [];
  const alone: T[] = [];
  for (const row of started) (leaving.has(serviceOf(row)) ? arriving : alone).push(row);
  for (const service of new Set(arriving.map(serviceOf))) leaving.get(service)?.sort(byName);
  const upgraded: { before: T; after: T }[] = [];
  for (const after of arriving.sort(byName)) {
    const before = leaving.get(serviceOf(after))?.shift();
    if (before === undefined) alone.push(after);
    else upgraded.push({ before, after });
  }
  return { upgraded, started: alone, exited: [...leaving.values()].flat() };
}

const byName = (a: Running, b: Running): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id);

/** The order of changes: by the artifacts afterwards, what fails first, then by name. */
export function byUrgency(a: ArtifactChange, b: ArtifactChange): number {
  const [one, other] = [(a.after ?? a.before) as Running, (b.after ?? b.before) as Running];
  return rankOf(one) - rankOf(other) || byName(one, other);
}

/** A policy version in force. `policy` identifies the policy. */
export type PolicyInForce = { policy: string; name: string; version: number };
export type PolicyChange = {
  name: string;
  /** Versions before and after; null where it was not attached. */
  before: number | null;
  after: number | null;
};

/** Policies that were attached, detached or changed, by name. */
export function comparePolicies(before: readonly PolicyInForce[], after: readonly PolicyInForce[]): PolicyChange[] {
  const old = new Map(before.map((one) => [one.policy, one]));
  const young = new Map(after.map((one) => [one.policy, one]));
  const changes: PolicyChange[] = [
    ...after
      .filter(({ policy, version }) => old.get(policy)?.version !== version)
      .map(({ policy, name, version }) => ({ name, before: old.get(policy)?.version ?? null, after: version })),
    ...before
      .filter(({ policy }) => !young.has(policy))
      .map(({ name, version }) => ({ name, before: version, after: null })),
  ];
  return changes.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
