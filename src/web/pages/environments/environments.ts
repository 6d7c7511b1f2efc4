/** `/{org}/environments`: the environments of an organization, and the form that creates one. */
import { createEnv, getEnvironment, listEnvs } from "../../../api/environments/environments.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { AppError, invalid } from "../../../errors.ts";
import { verdictBar } from "../../components/charts.ts";
import { formOf, selectField, textArea, textField } from "../../components/forms.ts";
import { card, empty, linkButton, nameCell, padded, pageHead, table } from "../../components/layout.ts";
import type { TableColumn } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { badge, stateOfVerdict, tag } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { TYPES, isSilent, typeName } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

type EnvironmentPage = Exclude<AnswerOf<typeof listEnvs>, readonly unknown[]>;

const PER_PAGE = 25;
const SORTS = ["name", "last_changed_at", "last_modified_at"] as const;
type Sort = (typeof SORTS)[number];

export const environmentsPage = page({
  path: "/{org}/environments",
  show(visit) {
    const isCreation = visit.query.get("ask") === "create" || visit.refused !== null;
    return visit.may(createEnv) && isCreation ? showCreation(visit) : showList(visit);
  },
  forms: {
    create: form(createEnv, async ({ call, to }, fields) => {
      const name = fields.text("name").trim();
      // An unknown type is refused by the operation, at its field.
      const type = fields.text("type") as ShownEnvironment["type"];
      // The operation changes an environment that exists: this form must not.
      if (await exists(call, name)) throw invalid({ name: "An environment with this name already exists" });
      await call(createEnv, {
        body: {
          name,
          type,
          description: fields.text("description").trim(),
          ...(type === "logical" ? { included_environments: fields.lines("included_environments") } : {}),
        },
      });
      return { go: to.environment(name), done: "created" };
    }),
  },
});

async function exists(call: Visit["call"], name: string): Promise<boolean> {
  if (name === "") return false;
  try {
    await call(getEnvironment, { params: { env_name: name } });
    return true;
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return false;
    throw error;
  }
}

function showCreation(visit: Visit): Promise<Content> {
  const fields = html`${textField(visit, {
    form: "create",
    name: "name",
    label: "Name",
    of: createEnv,
    isMono: true,
    placeholder: "production-eu",
  })}${selectField(visit, {
    form: "create",
    name: "type",
    label: "Type",
    choices: TYPES,
    value: visit.query.get("type"),
    hint: "What runs there. The type cannot be changed later.",
  })}${textField(visit, {
    form: "create",
    name: "description",
    label: "Description",
    of: createEnv,
    hint: "For people: what it is for, who looks after it.",
    isRequired: false,
  })}${textArea(visit, {
    form: "create",
    name: "included_environments",
    label: "Members",
    rows: 4,
    isMono: true,
    hint: "For a logical environment only: names of the environments that it shows together, one a line.",
  })}`;
  return Promise.resolve({
    title: "New environment",
    section: "environments",
    crumbs: [{ text: "Environments", href: visit.to.environments() }],
    main: html`${pageHead({
      title: "New environment",
      sub: "An environment is a place where software runs. Reporters send what runs in it.",
    })}
${card({
  id: "h-new",
  title: "Environment",
  body: padded(
    formOf(visit, { name: "create", submit: "Create environment", fields, cancel: visit.to.environments() }),
  ),
})}`,
  });
}

const NAMES = ["name", "type", "tag"] as const;

async function showList(visit: Visit): Promise<Content> {
  const { call, query, may, here } = visit;
  const sort = SORTS.find((one) => one === query.get("sort")) ?? "name";
  const direction = query.get("direction") === "desc" ? "desc" : "asc";
  const type = TYPES.find(({ value }) => value === query.get("type"))?.value;
  const tags = (query.get("tag") ?? "").split(",").filter((text) => text.trim() !== "");
  const answer = (await call(listEnvs, {
    query: {
      page: pageOf(query),
      per_page: PER_PAGE,
      counts: true,
      name: query.get("name"),
      sort,
      sort_direction: direction,
      ...(type ? { type: [type] } : {}),
      ...(tags.length > 0 ? { tag: tags } : {}),
    },
  })) as EnvironmentPage;
  const isFiltered = NAMES.some((name) => (query.get(name) ?? "") !== "");
  const create =
    may(createEnv) && linkButton(here({ ask: "create" }), "New environment", { icon: "plus", kind: "primary" });
  const isEmpty = answer.total_count === 0 && !isFiltered;
  const body = isEmpty
    ? html`<section class="card">${empty({
        icon: "server",
        title: "No environments yet",
        text: "An environment is a place where software runs, such as a cluster. A reporter sends what runs in it.",
        command: "kosli create environment production --type K8S\nkosli snapshot k8s production",
        actions: create,
      })}</section>`
    : html`${listFilters(visit, answer.total_count)}${environmentTable(visit, answer, { sort, direction })}`;
  return {
    title: "Environments",
    section: "environments",
    crumbs: [],
    main: html`${pageHead({
      title: "Environments",
      sub: "What runs, and whether it may.",
      actions: isEmpty ? [] : [create],
    })}${body}`,
  };
}

const listFilters = (visit: Visit, total: number): Html =>
  filters(visit, {
    items: [
      { kind: "search", name: "name", label: "Search by name" },
      { kind: "choice", name: "type", label: "Type", choices: [{ value: "", text: "Any type" }, ...TYPES] },
      { kind: "text", name: "tag", label: "Tag: key or key:value" },
    ],
    keep: ["sort", "direction"],
    total,
    what: total === 1 ? "environment" : "environments",
  });

function environmentTable(
  visit: Visit,
  { environments, page: number, per_page, total_count, total_pages }: EnvironmentPage,
  order: { sort: Sort; direction: "asc" | "desc" },
): Html {
  if (environments.length === 0)
    return html`<section class="card">${empty({
      icon: "search",
      title: "No environment matches",
      text: "The search looks for a part of the name. A tag matches as a whole.",
      actions: linkButton(visit.to.environments(), "Clear filters"),
    })}</section>`;
  // Times begin with the latest one.
  const sortBy = (sort: Sort): NonNullable<TableColumn["sort"]> => {
    const isCurrent = sort === order.sort;
    const first = sort === "name" ? "asc" : "desc";
    const next = isCurrent ? (order.direction === "asc" ? "desc" : "asc") : first;
    const direction = order.direction === "asc" ? "ascending" : "descending";
    return { href: visit.here({ sort, direction: next }), direction: isCurrent ? direction : null };
  };
  const columns: TableColumn[] = [
    { text: "Name", sort: sortBy("name") },
    { text: "State", className: "w-st" },
    { text: "Running", className: "w-seg" },
    { text: "Last report", isRight: true },
    { text: "Last change", isRight: true, sort: sortBy("last_changed_at") },
  ];
  const rows = environments.map((environment) => environmentRow(visit, environment));
  return html`<section class="card" aria-label="Environments">${table({
    caption: "Environments",
    columns,
    rows,
  })}</section>${pager(visit, { total: total_count, page: number, per_page, page_count: total_pages })}`;
}

function environmentRow({ to, now }: Visit, environment: ShownEnvironment): Html {
  const { name, type, description, artifact_compliance_count: counts } = environment;
  const members = environment.included_environments;
  const tags = tagList(environment.tags);
  const detail = html`<span>${typeName(type)}${
    members && html`, ${members.length} ${members.length === 1 ? "member" : "members"}`
  }</span>${description !== "" && html`<span class="one-line"><bdi>${description}</bdi></span>`}${tags}`;
  const running = counts
    ? verdictBar({ compliant: counts.true, failing: counts.false, unknown: counts.null })
    : html`<span class="sub">no snapshot yet</span>`;
  const reported = isSilent(environment, now)
    ? html`${time(environment.last_reported_at, now)} ${tag("silent", "alert")}`
    : time(environment.last_reported_at, now);
  return html`<tr>${nameCell({ href: to.environment(name), name: html`<bdi>${name}</bdi>`, sub: detail })}
<td>${badge(stateOfVerdict(environment.state))}</td><td class="w-seg seg-td">${running}</td>
<td class="r" data-l="Last report">${reported}</td>
<td class="r" data-l="Last change">${time(environment.last_changed_at, now)}</td></tr>`;
}
