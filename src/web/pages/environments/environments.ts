/** `/{org}/environments`: the environments of an organization, and the form that creates one. */
import { createEnv, getEnvironment, listEnvs } from "../../../api/environments/environments.ts";
import { listPastEnvironments } from "../../../api/environments/past.ts";
import { AppError, invalid } from "../../../errors.ts";
import { causesLine } from "../../components/causes.ts";
import { verdictBar } from "../../components/charts.ts";
import { TYPES, typeIcon, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { formOf, selectField, textArea, textField } from "../../components/forms.ts";
import { card, nameCell, padded, pageHead } from "../../components/layout.ts";
import type { TableColumn } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { oneOf, stateFilter, tagsOf } from "../../components/lists.ts";
import { badge, stateOfVerdict } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { PAST_COLUMNS, pastEnvironmentRow } from "./past.ts";
import { isSilent } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

const STATES = ["NON-COMPLIANT", "UNKNOWN", "COMPLIANT"] as const;
const SORTS = ["state", "name", "last_changed_at", "last_modified_at"] as const;
type Sort = (typeof SORTS)[number];

export const environmentsPage = page({
  path: "/{org}/environments",
  past: "then",
  show(visit) {
    if (visit.moment) return showListThen(visit);
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
    crumb: "New",
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

const orderOf = ({ query }: Visit): { sort: Sort; direction: "asc" | "desc" } => ({
  sort: oneOf(query, "sort", SORTS) ?? "state",
  direction: oneOf(query, "direction", ["desc"]) ?? "asc",
});

const showList = listPage({
  title: "Environments",
  section: "environments",
  sub: "What runs, and whether it is allowed to.",
  create: { operation: createEnv, text: "New environment" },
  what: ["environment", "environments"],
  read: pageFrom(listEnvs, (visit) => {
    const { query } = visit;
    const { sort, direction } = orderOf(visit);
    const type = TYPES.find(({ value }) => value === query.get("type"))?.value;
    return {
      query: {
        counts: true,
        causes: true,
        name: query.get("name"),
        sort,
        sort_direction: direction,
        state: oneOf(query, "state", STATES),
        ...(type ? { type: [type] } : {}),
        ...tagsOf(query),
      },
    };
  }),
  filters: (_visit, { states }) => [
    { kind: "search", name: "name", label: "Search by name" },
    stateFilter(STATES, states),
    { kind: "choice", name: "type", label: "Type", choices: [{ value: "", text: "Any type" }, ...TYPES] },
    { kind: "text", name: "tag", label: "Tag: key or key:value" },
  ],
  keep: ["sort", "direction"],
  columns: (visit) => [
    { text: "Name", sort: sortBy(visit, "name") },
    { text: "State", className: "w-st", sort: sortBy(visit, "state") },
    { text: "Running", className: "w-seg" },
    { text: "Last report", isRight: true },
    { text: "Last change", isRight: true, sort: sortBy(visit, "last_changed_at") },
  ],
  row: environmentRow,
  empty: {
    icon: "server",
    title: "No environments yet",
    text: "An environment is a place where software runs, such as a cluster. A reporter sends what runs in it.",
    command: "kosli create environment production --type K8S\nkosli snapshot k8s production",
  },
  none: "The search looks for a part of the name. A tag matches as a whole.",
});

const showListThen = listPage({
  title: "Environments",
  section: "environments",
  sub: "What ran then, and whether it was allowed to.",
  what: ["environment", "environments"],
  read: pageFrom(listPastEnvironments, ({ query, moment }) => ({
    query: { at: moment?.text ?? "", name: query.get("name"), state: oneOf(query, "state", STATES) },
  })),
  filters: (_visit, { states }) => [
    { kind: "search", name: "name", label: "Search by name" },
    stateFilter(STATES, states),
  ],
  columns: () => PAST_COLUMNS,
  row: pastEnvironmentRow,
  empty: {
    icon: "history",
    title: "No environment existed then",
    text: "Environments are listed from the moment on at which they were created, until they were archived.",
  },
  none: "The search looks for a part of the name that an environment has now. The states are those of that moment.",
});

/** Times begin with the latest one, states with those that fail. */
function sortBy(visit: Visit, sort: Sort): NonNullable<TableColumn["sort"]> {
  const order = orderOf(visit);
  const isCurrent = sort === order.sort;
  const first = sort === "name" || sort === "state" ? "asc" : "desc";
  const next = isCurrent ? (order.direction === "asc" ? "desc" : "asc") : first;
  const direction = order.direction === "asc" ? "ascending" : "descending";
  return { href: visit.here({ sort, direction: next }), direction: isCurrent ? direction : null };
}

function environmentRow({ to, now }: Visit, environment: ShownEnvironment): Html {
  const { name, type, description, artifact_compliance_count: counts } = environment;
  const members = environment.included_environments;
  const tags = tagList(environment.tags);
  const detail = html`<span>${typeName(type)}${
    members && html`, ${members.length} ${members.length === 1 ? "member" : "members"}`
  }</span>${
    description !== "" && html`<span class="one-line"><bdi>${description}</bdi></span>`
  }${tags}${causesLine(environment)}`;
  const running = counts
    ? verdictBar({ compliant: counts.true, failing: counts.false, unknown: counts.null }, (show) =>
        to.environment(name, { show }),
      )
    : html`<span class="sub nowrap">no snapshot yet</span>`;
  const reported = isSilent(environment, now)
    ? html`<span class="st wait">${icon("alert")}<span class="vh">Not reporting: </span>${time(
        environment.last_reported_at,
        now,
      )}</span>`
    : time(environment.last_reported_at, now);
  const label = { href: to.environment(name), name: html`<bdi>${name}</bdi>`, sub: detail, mark: typeIcon(type) };
  return html`<tr>${nameCell(label)}
<td>${badge(stateOfVerdict(environment.state))}</td><td class="w-seg seg-td">${running}</td>
<td class="r" data-l="Last report">${reported}</td>
<td class="r" data-l="Last change">${time(environment.last_changed_at, now)}</td></tr>`;
}
