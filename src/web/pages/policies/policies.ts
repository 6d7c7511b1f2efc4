/** `/{org}/policies`: the policies of an organization, and the form that creates one. */
import { getPolicy, listPolicies, putPolicy } from "../../../api/policies/policies.ts";
import { AppError, invalid } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { policyCompletions } from "../../components/completions.ts";
import { asksForPreview, editorForm } from "../../components/editor.ts";
import { textField } from "../../components/forms.ts";
import { card, nameCell, nameList, padded, pageHead } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { formatNumber, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { showPoliciesThen } from "./past-policies.ts";
import { checkDraft, EXAMPLE_POLICY, LANGUAGE } from "./policy-edit.ts";
import { impact, noImpact } from "./policy-impact.ts";
import type { PreviewAnswer } from "./policy-impact.ts";

type PolicyPage = Exclude<AnswerOf<typeof listPolicies>, readonly unknown[]>;
type ListedPolicy = PolicyPage["policies"][number];

/** Environments that a row names. */
const MAX_NAMED = 4;

export const policiesPage = page({
  path: "/{org}/policies",
  past: "then",
  show(visit) {
    if (visit.moment) return showPoliciesThen(visit);
    const isCreation = visit.query.get("ask") === "create" || visit.refused?.form === "create";
    return visit.may(putPolicy) && isCreation ? showCreation(visit, null) : showList(visit);
  },
  forms: {
    create: form(putPolicy, async (visit, fields) => {
      if (asksForPreview(fields)) {
        const environments = fields.lines("environments");
        const body = environments.length === 0 ? {} : { environments };
        const { typed, preview } = await checkDraft(visit, fields, { form: "create", body });
        return { show: await showCreation(typed, preview) };
      }
      const name = fields.text("name").trim();
      await requireNewName(visit, name);
      await visit.call(putPolicy, {
        body: { name, description: fields.text("description"), comment: fields.text("comment") },
        file: { filename: "policy.yml", text: fields.text("policy_file") },
      });
      return { go: visit.to.policy(name), done: "created" };
    }),
  },
});

/** @throws AppError invalid on `name` */
async function requireNewName({ call }: Visit, name: string): Promise<void> {
  if (name === "") throw invalid({ name: "Field required" });
  const exists = await call(getPolicy, { params: { policy_name: name }, query: { files: ["none"] } }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof AppError && error.code === "not_found") return false;
      throw error;
    },
  );
  if (exists) throw invalid({ name: `A policy with this name already exists [input: ${name}]` });
}

async function showCreation(visit: Visit, preview: PreviewAnswer | null): Promise<Content> {
  const about = html`<div class="form">${textField(visit, {
    form: "create",
    name: "name",
    label: "Name",
    of: putPolicy,
    hint: "Letters, digits and - _ . ~ such as prod-baseline. It cannot be changed later.",
    isRequired: true,
  })}${textField(visit, {
    form: "create",
    name: "description",
    label: "Description",
    of: putPolicy,
    hint: "What the policy is for",
  })}</div>`;
  const more = html`<div class="form">${textField(visit, {
    form: "create",
    name: "environments",
    label: "Try it in these environments",
    hint: "Names, separated by commas. The preview evaluates what runs there. It attaches nothing.",
    placeholder: "production, staging",
  })}${textField(visit, {
    form: "create",
    name: "comment",
    label: "Comment",
    of: putPolicy,
    hint: "For the history",
  })}</div>`;
  const editor = editorForm(visit, {
    form: "create",
    field: "policy_file",
    title: "policy.yml",
    label: "Text of the policy",
    value: EXAMPLE_POLICY,
    problems: visit.refused?.problems ?? [],
    base: null,
    completions: await policyCompletions(visit),
    language: LANGUAGE,
    above: card({ id: "h-new", title: "Policy", body: padded(about) }),
    below: card({ id: "h-more", title: "Preview and note", body: padded(more) }),
    result: preview ? impact(visit, preview, null) : noImpact(null),
    buttons: { submit: "Create policy", cancel: { href: visit.to.policies(), text: "Cancel" } },
    rows: 14,
  });
  return {
    title: "New policy",
    section: "policies",
    crumbs: [{ text: "Policies", href: visit.to.policies() }],
    crumb: "New",
    hasEditor: true,
    main: html`${pageHead({
      title: "New policy",
      sub: "A policy says what everything that runs in an environment has to prove.",
    })}${editor}`,
  };
}

const showList = listPage({
  title: "Policies",
  section: "policies",
  sub: "What has to be proved before something runs in an environment.",
  create: { operation: putPolicy, text: "New policy" },
  what: ["policy", "policies"],
  read: pageFrom(listPolicies, ({ query }) => ({ query: { name: query.get("search"), files: "none" } })),
  filters: [{ kind: "search", name: "search", label: "Search by name" }],
  columns: [
    { text: "Name" },
    { text: "Version", className: "w-time" },
    { text: "Used by" },
    { text: "Changed", isRight: true },
  ],
  row: policyRow,
  empty: {
    icon: "law",
    title: "No policies yet",
    text: "A policy says what everything that runs in an environment has to prove. Environments use one or more.",
    command: "kosli create policy prod-baseline policy.yml",
  },
  none: "The search looks for a part of the name, in any case.",
});

function policyRow({ to, now }: Visit, policy: ListedPolicy): Html {
  const latest = policy.versions.at(-1);
  const name = nameCell({
    href: to.policy(policy.name),
    name: html`<bdi>${policy.name}</bdi>`,
    mark: icon("law"),
    sub: policy.description === "" ? null : html`<span class="cut-block">${policy.description}</span>`,
  });
  const version = latest ? tag(`v${latest.version}`) : html`<span class="muted">No text</span>`;
  return html`<tr>${name}<td>${version}</td><td class="fill" data-l="Used by">${users(to, policy)}</td>
<td class="r" data-l="Changed">${time(policy.last_modified_at, now)}</td></tr>`;
}

function users(to: Visit["to"], { consuming_envs: all }: ListedPolicy): Html {
  if (all.length === 0) return html`<span class="muted">no environment</span>`;
  const shown = all.slice(0, MAX_NAMED);
  const rest = all.length - shown.length;
  const names = nameList(shown.map((name) => html`<a href="${to.environment(name)}"><bdi>${name}</bdi></a>`));
  return html`${names}${rest > 0 && html` and ${formatNumber(rest)} more`}`;
}
