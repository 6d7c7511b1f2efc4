/** `/{org}/attestation-types/{name}`: a custom type with its versions; its next version, and its archiving. */
import {
  archiveCustomAttestationType,
  getCustomAttestationType,
  postCustomAttestationType,
} from "../../../api/attestations/custom-attestation-types.ts";
import { JQ_VERSION } from "../../../domain/attestation/custom.ts";
import { AppError } from "../../../errors.ts";
import { indentJson, stringifyJson } from "../../../json/text.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { sourceCode } from "../../components/code.ts";
import { tooLongNote } from "../../components/editor.ts";
import { formOf } from "../../components/forms.ts";
import { card, facts, linkButton, moreLink, padded, pageHead, reasonsBox, snippet } from "../../components/layout.ts";
import { icon } from "../../components/icon.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { storeDefinition, tryDefinition } from "./attestation-type-fields.ts";
import { definitionForm } from "./attestation-type-form.ts";
import type { Initial, Tried } from "./attestation-type-form.ts";

type CustomType = AnswerOf<typeof getCustomAttestationType>;
type Version = CustomType["versions"][number];

/** Versions that are listed; older ones have addresses. */
const MAX_VERSIONS = 50;
/** Characters of a schema that are shown; the whole one is a download. */
const MAX_SCHEMA_CHARS = 100_000;

export const attestationTypePage = page({
  path: "/{org}/attestation-types/{name}",
  async show(visit) {
    const ask = visit.query.get("ask");
    if (ask === "version" && visit.may(postCustomAttestationType)) return nextVersion(visit, null);
    const { params, call } = visit;
    const query = { max_versions: MAX_VERSIONS, schemas: false };
    const type = await call(getCustomAttestationType, { params: typeParams(params), query });
    if (ask === "archive" && visit.may(archiveCustomAttestationType) && !type.archived) return archiving(visit, type);
    return showType(visit, type);
  },
  forms: {
    version: form(postCustomAttestationType, async (visit, fields) => {
      const { params, to } = visit;
      const name = params["name"] as string;
      const tried = await tryDefinition(visit, { form: "version", fields });
      if (tried) return { show: await nextVersion(tried.visit, tried.result) };
      // A type that is gone must not come back under the form of its next version.
      await visit.call(getCustomAttestationType, {
        params: typeParams(params),
        query: { max_versions: 1, schemas: false },
      });
      await storeDefinition(visit, name, fields);
      return { go: to.attestationType(name), done: "saved" };
    }),
    archive: form(archiveCustomAttestationType, async ({ call, params, to }) => {
      await call(archiveCustomAttestationType, { params: typeParams(params) });
      return { go: to.attestationType(params["name"] as string), done: "archived_type" };
    }),
  },
});

const typeParams = (params: Visit["params"]) => ({ custom_attestation_type_name: params["name"] as string });

/** The version of the address with its schema; the latest one for a number that there is none of. */
async function readVersion({ call, params, query }: Visit, type: CustomType): Promise<Version | undefined> {
  const latest = type.versions[0]?.version ?? 1;
  const asked = Number(query.get("version") ?? latest);
  const version = Number.isInteger(asked) && asked >= 1 && asked <= latest ? asked : latest;
  try {
    const read = { params: typeParams(params), query: { version: String(version) } };
    return (await call(getCustomAttestationType, read)).versions[0];
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return type.versions[0];
    throw error;
  }
}

const rulesOf = (version: Version | undefined): readonly string[] =>
  version && "rules" in version.evaluator ? version.evaluator.rules : [];

/** @param maxChars of the result: the rest is cut off */
const schemaText = ({ type_schema: schema }: Pick<Version, "type_schema">, maxChars: number): string =>
  schema === undefined ? "" : indentJson(schema, maxChars);

/** The whole schema, to be changed: a long one without line breaks, which take a tenth of a second. */
function editableSchema({ type_schema: schema }: Pick<Version, "type_schema">): string {
  if (schema === undefined) return "";
  const text = stringifyJson(schema);
  return text.length > MAX_SCHEMA_CHARS ? text : indentJson(schema);
}

const crumbsOf = ({ to }: Visit) => [
  { text: "Attestations", href: to.attestations() },
  { text: "Types", href: to.attestationTypes() },
];

async function showType(visit: Visit, type: CustomType): Promise<Content> {
  const { to, now, may, here } = visit;
  const version = await readVersion(visit, type);
  const latest = type.versions[0]?.version ?? 0;
  const isLatest = version?.version === latest;
  const canWrite = may(postCustomAttestationType);
  const ask = (what: string): string => here({ ask: what, version: null });
  const text = canWrite ? "A new version makes it active again." : "";
  return {
    title: type.name,
    section: "attestations",
    crumbs: crumbsOf(visit),
    main: html`${pageHead({
      title: html`<bdi>${type.name}</bdi>`,
      state: html`${tag(`v${version?.version ?? 0}`)}${isLatest && tag("latest")}${
        type.archived && tag("Archived", "archive")
      }`,
      sub: type.description ?? null,
      meta: [
        html`${icon("person")}<bdi>${type.created_by ?? ""}</bdi>`,
        html`${icon("clock")}created ${time(type.created_at, now)}`,
        html`<a href="${to.attestations({ type: `custom:${type.name}` })}">Attestations of this type</a>`,
      ],
      actions: [
        canWrite && linkButton(ask("version"), "New version", { icon: "plus", kind: "primary" }),
        may(archiveCustomAttestationType) &&
          !type.archived &&
          linkButton(ask("archive"), "Archive", { icon: "archive", kind: "danger" }),
      ],
    })}${
      type.archived &&
      reasonsBox({
        state: "none",
        title: "This type is archived",
        reasons: [`Reports of it are refused; its attestations stay readable. ${text}`],
      })
    }
<div class="cols"><div class="stack">${version ? definition(visit, version) : null}</div>
<div class="stack">${versionList(visit, type, version?.version ?? latest)}${reporting(type)}</div></div>`,
  };
}

function definition({ to, org, params }: Visit, version: Version): Html {
  const rules = rulesOf(version);
  const text = schemaText(version, MAX_SCHEMA_CHARS + 1);
  const name = params["name"] as string;
  const whole = `${to.api("custom-attestation-types", org, name)}?version=${version.version}`;
  const isCut = text.length > MAX_SCHEMA_CHARS;
  const schema =
    text === ""
      ? padded(html`<p class="muted">Any JSON is accepted.</p>`)
      : html`${sourceCode({ text: text.slice(0, MAX_SCHEMA_CHARS), label: "Text of the JSON Schema" })}${
          isCut && padded(html`<p class="sub">The rest is not shown. <a href="${whole}">Read all of it as JSON</a></p>`)
        }`;
  return html`${card({
    id: "h-rules",
    title: "Rules",
    note: version.comment === undefined ? null : html`<bdi>${version.comment}</bdi>`,
    body:
      rules.length === 0
        ? padded(html`<p class="muted">No rules: all data that matches the schema is compliant.</p>`)
        : html`<ol class="rules">${rules.map((rule) => html`<li><code>${rule.trim()}</code></li>`)}</ol>
${padded(html`<p class="sub">jq ${JQ_VERSION} runs them.</p>`)}`,
  })}${card({ id: "h-schema", title: "JSON Schema", more: moreLink(whole, "As JSON"), body: schema })}${
    version.summary &&
    version.summary.length > 0 &&
    card({
      id: "h-summary",
      title: "Summary",
      body: padded(
        facts(version.summary.map(({ name: label, expression }) => [label, html`<code>${expression}</code>`])),
      ),
    })
  }`;
}

function versionList({ here, now }: Visit, { versions }: CustomType, shown: number): Html {
  const rows = versions.map(({ version, timestamp, created_by: author }) => {
    const current = version === shown && html` aria-current="true"`;
    return html`<li><div class="grow"><a class="name" href="${here({ version })}"${current}>Version ${version}</a>
<div class="sub"><bdi>${author}</bdi></div></div>${time(timestamp, now)}</li>`;
  });
  const oldest = versions.at(-1)?.version ?? 1;
  const rest =
    oldest > 1 && html`<a href="${here({ version: oldest - 1 })}">Version ${oldest - 1} and older ones by number</a>`;
  return card({ id: "h-versions", title: "Versions", body: html`<ul class="rows">${rows}</ul>`, foot: rest });
}

/** How a pipeline reports it. */
function reporting({ name, archived }: CustomType): Html | null {
  if (archived) return null;
  const options = [`--type ${name}`, "--name NAME", "--flow FLOW", "--trail TRAIL", "--attestation-data data.json"];
  const command = ["kosli attest custom", ...options].join(" \\\n  ");
  return card({ id: "h-report", title: "Report it", body: padded(snippet(command)) });
}

async function nextVersion(visit: Visit, tried: Tried | null): Promise<Content> {
  const { params, call, to } = visit;
  const type = await call(getCustomAttestationType, { params: typeParams(params), query: { max_versions: 1 } });
  const latest = type.versions[0];
  const initial: Initial = {
    description: type.description ?? "",
    schema: latest ? editableSchema(latest) : "",
    rules: rulesOf(latest),
    summary: latest?.summary ?? [],
  };
  const back = to.attestationType(type.name);
  const number = (latest?.version ?? 0) + 1;
  const returns = type.archived ? ", and makes the type active again" : "";
  const sub = `It evaluates all further reports${returns}. Attestations keep the version that evaluated them.`;
  const note = tooLongNote(initial.schema);
  return {
    title: `New version of ${type.name}`,
    section: "attestations",
    crumbs: [...crumbsOf(visit), { text: type.name, href: back }],
    crumb: "New version",
    main: html`${pageHead({
      title: html`Version ${number} of <bdi>${type.name}</bdi>`,
      sub,
    })}${
      note
        ? card({ id: "h-schema", title: "JSON Schema", body: padded(note) })
        : definitionForm(visit, { form: "version", submit: `Save version ${number}`, cancel: back, initial, tried })
    }`,
  };
}

function archiving(visit: Visit, { name }: CustomType): Content {
  const back = visit.to.attestationType(name);
  const fields = html`<p>Reports of this type will be refused. The type and its attestations stay readable, and verdicts
stay as they are. A new version makes it active again.</p>`;
  return {
    title: `Archive ${name}`,
    section: "attestations",
    crumbs: [...crumbsOf(visit), { text: name, href: back }],
    crumb: "Archive",
    main: html`${pageHead({ title: html`Archive <bdi>${name}</bdi>` })}${card({
      id: "h-archive",
      title: "Archive this attestation type",
      body: padded(formOf(visit, { name: "archive", submit: "Archive type", isDanger: true, fields, cancel: back })),
    })}`,
  };
}
