/** What the filters of lists offer: the flows, environments, repositories and attestation types of the organization. */
import { getCustomAttestationTypes } from "../../../api/attestations/custom-attestation-types.ts";
import { listEnvs } from "../../../api/environments/environments.ts";
import { getFlows } from "../../../api/flows/flows.ts";
import { listRepos } from "../../../api/flows/repos.ts";
import { KINDS, isFilterWord } from "../../../domain/attestation/kinds.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import type { Filter } from "../../components/lists.ts";
import type { Visit } from "../../page/page.ts";

/** A select has at most so many; with more, people type the name. */
const MAX_CHOICES = 50;
const MAX_TYPES = 100;

/** A select, with what is filtered by now even if the list does not have it; a text field for too many names. */
function filterOf(
  { query }: Pick<Visit, "query">,
  { name, label, any, names }: { name: string; label: string; any: string; names: readonly string[] | null },
): Filter {
  if (names === null) return { kind: "text", name, label };
  const current = query.get(name) ?? "";
  const all = current === "" || names.includes(current) ? names : [current, ...names];
  const choices = [{ value: "", text: any }, ...all.map((value) => ({ value, text: value }))];
  return { kind: "choice", name, label, choices };
}

type FlowPage = Exclude<AnswerOf<typeof getFlows>, readonly unknown[]>;

export async function flowFilter(visit: Visit): Promise<Filter> {
  const query = { page: 1, per_page: MAX_CHOICES, sort: "name" } as const;
  const { data, pagination } = (await visit.call(getFlows, { query })) as FlowPage;
  const names = pagination.total > MAX_CHOICES ? null : data.map((flow) => flow.name);
  return filterOf(visit, { name: "flow", label: "Flow", any: "Any flow", names });
}

type EnvironmentPage = Exclude<AnswerOf<typeof listEnvs>, readonly unknown[]>;

export async function environmentFilter(visit: Visit): Promise<Filter> {
  const query = { page: 1, per_page: MAX_CHOICES } as const;
  const { environments, total_count: total } = (await visit.call(listEnvs, { query })) as EnvironmentPage;
  const names = total > MAX_CHOICES ? null : environments.map(({ name }) => name);
  return filterOf(visit, { name: "environment", label: "Environment", any: "Any environment", names });
}

export async function repositoryFilter(visit: Visit): Promise<Filter> {
  const { repos, total_count: total } = await visit.call(listRepos, { query: { page: 1, per_page: MAX_CHOICES } });
  // Repositories of several code hosts may share a name.
  const names = total > MAX_CHOICES ? null : [...new Set(repos.map(({ name }) => name))];
  return filterOf(visit, { name: "repo", label: "Repository", any: "Any repository", names });
}

const BUILT_IN = [...KINDS.flatMap(({ word }) => (word === null || word === "custom" ? [] : [word])), "override"];

export async function typeFilter(visit: Visit): Promise<Filter> {
  const query = { page: 1, per_page: MAX_TYPES, max_versions: 1, schemas: false };
  const types = await visit.call(getCustomAttestationTypes, { query });
  const custom = "data" in types ? types.data : types;
  const names = [...BUILT_IN, ...custom.map(({ name }) => `custom:${name}`)];
  // Another text filters nothing: the list says so.
  const current = typeOf(visit.query) === null ? new URLSearchParams() : visit.query;
  return filterOf({ query: current }, { name: "type", label: "Type", any: "Any type", names });
}

/** The type in the address; null without one, and for any other text. */
export function typeOf(query: URLSearchParams): string | null {
  const word = query.get("type") ?? "";
  return isFilterWord(word) || word === "override" ? word : null;
}
