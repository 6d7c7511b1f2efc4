/** `/{org}/attestation-types`: the types that the server and the organization define, and the form that creates one. */
import {
  getCustomAttestationType,
  getCustomAttestationTypes,
  postCustomAttestationType,
} from "../../../api/attestations/custom-attestation-types.ts";
import { listSystemAttestationTypes } from "../../../api/attestations/system.ts";
import { AppError, invalid } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { card, nameCell, pageHead } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { pageOf } from "../../components/lists.ts";
import { icon } from "../../components/icon.ts";
import { sourceCode } from "../../components/code.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { EXAMPLE, definitionForm } from "./attestation-type-form.ts";
import type { Tried } from "./attestation-type-form.ts";
import { storeDefinition, tryDefinition } from "./attestation-type-fields.ts";

type CustomType = Exclude<AnswerOf<typeof getCustomAttestationTypes>, readonly unknown[]>["data"][number];

/** The attestation types that every server has besides decisions, and what they report. */
const BUILT_IN = [
  ["generic", "Any evidence; the reporter states the verdict"],
  ["junit", "Test results; compliant without failures and errors"],
  ["snyk", "A vulnerability scan; compliant without findings"],
  ["sonar", "A quality gate; compliant if it passed"],
  ["pull_request", "Pull requests of the commit; compliant if there is one"],
  ["jira", "Issues that the commit names; compliant if there are some and all of them exist"],
] as const;

/** The types that have a schema of their own. */
const WITH_SCHEMA: Readonly<Record<string, string>> = {
  decision: "A decision on a control; the reporter states the verdict",
  sbom: "A software bill of materials; recorded as reported, and always compliant",
};

export const attestationTypesPage = page({
  path: "/{org}/attestation-types",
  show: (visit) =>
    visit.query.get("ask") === "create" && visit.may(postCustomAttestationType)
      ? Promise.resolve(creation(visit))
      : showList(visit),
  forms: {
    create: form(postCustomAttestationType, async (visit, fields) => {
      const tried = await tryDefinition(visit, { form: "create", fields });
      if (tried) return { show: creation(tried.visit, tried.result) };
      const name = fields.text("name").trim();
      if (await exists(visit, name))
        throw invalid({ name: `A type with this name already exists: add a version on its page [input: ${name}]` });
      await storeDefinition(visit, name, fields);
      return { go: visit.to.attestationType(name), done: "created" };
    }),
  },
});

const exists = ({ call }: Visit, name: string): Promise<boolean> =>
  call(getCustomAttestationType, {
    params: { custom_attestation_type_name: name },
    query: { max_versions: 1, schemas: false },
  }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof AppError && error.code === "not_found") return false;
      throw error;
    },
  );

function creation(visit: Visit, tried: Tried | null = null): Content {
  const types = visit.to.attestationTypes();
  return {
    title: "New attestation type",
    section: "attestations",
    crumbs: [
      { text: "Attestations", href: visit.to.attestations() },
      { text: "Types", href: types },
    ],
    crumb: "New",
    main: html`${pageHead({
      title: "New attestation type",
      sub: "What pipelines may report under this type, and which data is compliant.",
    })}${definitionForm(visit, { form: "create", submit: "Create type", cancel: types, initial: EXAMPLE, tried })}`,
  };
}

const showList = listPage({
  title: "Attestation types",
  section: "attestations",
  crumbs: ({ to }) => [{ text: "Attestations", href: to.attestations() }],
  crumb: "Types",
  sub: "What an attestation may contain, and when it is compliant.",
  create: { operation: postCustomAttestationType, text: "New type" },
  what: ["custom type", "custom types"],
  read: pageFrom(getCustomAttestationTypes, ({ query }) => ({
    query: { envelope: true, max_versions: 1, schemas: false, name: query.get("search")?.trim() || null },
  })),
  filters: [{ kind: "search", name: "search", label: "Search by name" }],
  caption: "Custom types by name",
  head: () => ({ id: "h-custom", title: "Custom types" }),
  columns: [
    { text: "Name" },
    { text: "Rules", isRight: true, className: "w-time" },
    { text: "Version", className: "w-time" },
    { text: "Changed", isRight: true, className: "w-time" },
  ],
  row: typeRow,
  empty: {
    icon: "code",
    title: "No custom types yet",
    text: "A custom type checks your own data: by a JSON Schema, and by rules in jq.",
    command: "kosli create attestation-type coverage \\\n  --schema schema.json --jq '.percent >= 80'",
  },
  none: "The search looks for a part of the name, in any case.",
  below: async (visit) => (pageOf(visit.query) === 1 ? await builtInTypes(visit) : null),
});

function typeRow({ to, now }: Visit, type: CustomType): Html {
  const [latest] = type.versions;
  const rules = latest && "rules" in latest.evaluator ? latest.evaluator.rules.length : 0;
  const name = nameCell({
    href: to.attestationType(type.name),
    name: html`<bdi>${type.name}</bdi>`,
    mark: icon("code"),
    after: type.archived && tag("Archived", "archive"),
    sub: type.description && html`<bdi>${type.description}</bdi>`,
  });
  return html`<tr>${name}<td class="r num" data-l="Rules">${rules}</td>
<td data-l="Version">${latest && tag(`v${latest.version}`)}</td>
<td class="r" data-l="Changed">${time(type.last_modified_at, now)}</td></tr>`;
}

/** The types of the server: those with a page of their own in the API, and decisions with their schema. */
async function builtInTypes(visit: Visit): Promise<Html> {
  const { to, call } = visit;
  const link = (word: string): Html => html`<a class="name" href="${to.attestations({ type: word })}">${word}</a>`;
  const rows = BUILT_IN.map(
    ([word, text]) => html`<li><div class="grow">${link(word)}<div class="sub">${text}</div></div></li>`,
  );
  const system = (await call(listSystemAttestationTypes)).map(({ name, versions }) => {
    const latest = versions.at(-1);
    const text = JSON.stringify(latest?.schema ?? {}, null, 2);
    const summary = html`JSON Schema of version ${latest?.version ?? 0}${icon("chevron-down", "12")}`;
    const schema = html`<details><summary>${summary}</summary>
${sourceCode({ text, label: `JSON Schema of ${name}`, anchor: `${name}-L` })}</details>`;
    return html`<li><div class="grow">${link(name)}<div class="sub">${WITH_SCHEMA[name]}</div>${schema}</div></li>`;
  });
  return card({ id: "h-system", title: "Built-in types", body: html`<ul class="rows">${rows}${system}</ul>` });
}
