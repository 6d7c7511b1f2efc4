/** The artifacts that an environment accepts whatever its policies say: the list, and the form that adds one. */
import { allowArtifact, listAllowlist } from "../../../api/environments/allowlists.ts";
import { MAX_EXPIRY_S } from "../../../domain/time.ts";
import { invalid, notFound } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { typedForm } from "../../components/editor.ts";
import { formOf, hiddenField, textArea, textField } from "../../components/forms.ts";
import { artifactName, fingerprint } from "../../components/identifier.ts";
import {
  askPreview,
  assertNote,
  impactPanel,
  isUnseen,
  runningName,
  seenField,
  submitText,
} from "../../components/impact.ts";
import { card, linkButton, padded } from "../../components/layout.ts";
import { renderList, pageFrom } from "../../components/list-page.ts";
import { formatInput, formatUtc, time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import { form } from "../../page/page.ts";
import type { Content, Form, Visit } from "../../page/page.ts";
import type { ShownEnvironment } from "./types.ts";

type Entry = Exclude<AnswerOf<typeof listAllowlist>, readonly unknown[]>["data"][number];

const FINGERPRINT = /^[0-9a-f]{64}$/;

/** @param show the page, for a form whose panel was about another artifact, or that had none */
export const allowlistForms = (show: (visit: Visit) => Promise<Content>): Readonly<Record<string, Form>> => ({
  allow: form(allowArtifact, async (visit, fields) => {
    const fingerprint = fields.text("artifact_fingerprint").trim();
    // Anything else is refused by the operation, at its field.
    if (FINGERPRINT.test(fingerprint) && isUnseen(fields, fingerprint))
      return { show: await show(typedForm(visit, "allow", { fields, problems: [] })) };
    const end = parseEnd(fields);
    const name = visit.params["env"] ?? "";
    await visit.call(allowArtifact, {
      params: { env_name: name },
      body: {
        artifact_fingerprint: fingerprint,
        artifact_name: fields.text("artifact_name").trim(),
        description: requireReason(fields.text("description").trim()),
        ...(end === null ? {} : { expires_at: Math.floor(end) }),
      },
    });
    return { go: visit.to.environment(name, { tab: "settings" }), done: "allowed" };
  }),
  disallow: form(allowArtifact, async (visit, fields) => {
    const name = visit.params["env"] ?? "";
    const entry = await findEntry(visit, name, fields.text("artifact_fingerprint"));
    if (!entry) throw notFound("This artifact is not on the allowlist any more");
    await visit.call(allowArtifact, {
      params: { env_name: name },
      body: {
        artifact_fingerprint: entry.fingerprint,
        artifact_name: entry.artifact_name,
        description: requireReason(fields.text("description").trim()),
        expires_at: Math.floor(visit.now) + END_SOON_S,
      },
    });
    return { go: visit.to.environment(name, { tab: "settings" }), done: "disallowed" };
  }),
});

/** An entry ends at a time to come, which must still lie ahead when the operation reads the clock. */
const END_SOON_S = 5;

async function findEntry({ call }: Visit, environment: string, fingerprint: string): Promise<Entry | null> {
  const answer = await call(listAllowlist, {
    query: { env_name: environment, in_force: true, fingerprint, per_page: 1, envelope: true },
  });
  return ("data" in answer ? answer.data : answer)[0] ?? null;
}

/** Epoch seconds; null for no end. @throws AppError invalid */
function parseEnd(fields: Fields): number | null {
  const end = fields.time("expires_at");
  const problem = Number.isNaN(end)
    ? "Input should be a date and time such as 2026-12-31 18:00"
    : end !== null && end > MAX_EXPIRY_S
      ? `The latest possible end is ${formatUtc(MAX_EXPIRY_S)}`
      : null;
  if (problem !== null) throw invalid({ expires_at: `${problem} [input: ${fields.text("expires_at")}]` });
  return end;
}

/** The operation takes an empty reason from old clients; a person gives one. */
function requireReason(text: string): string {
  if (text === "") throw invalid({ description: "A reason is required" });
  return text;
}

/** Whether the address, or a form that was refused, asks for an artifact to be allowed. */
export const asksToAllow = ({ query, refused }: Visit): boolean =>
  refused ? refused.form === "allow" : query.has("allow") || query.get("ask") === "allow";

export async function allowlistCard(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const add = linkButton(visit.here({ ask: "allow" }), "Allow an artifact", { icon: "plus", kind: "small" });
  const head = { id: "h-allow", title: "Allowlist", more: html`<span class="right">${add}</span>` };
  const { body } = await renderList(visit, {
    what: ["allowlist entry", "allowlist entries"],
    read: pageFrom(listAllowlist, () => ({ query: { envelope: true, env_name: environment.name, in_force: true } })),
    filters: [],
    head: () => head,
    caption: "Allowlist",
    columns: [
      { text: "Artifact" },
      { text: "Reason" },
      { text: "In force" },
      { text: "Change", isRight: true, isHidden: true },
    ],
    row: entryRow,
    empty: {
      icon: "shield-check",
      title: "Nothing is allowlisted",
      text: "What is on the allowlist is accepted whatever the policies say, for a reason, until its end.",
      command: `kosli allow artifact NAME --artifact-type oci --environment ${environment.name} --reason REASON`,
    },
    none: "The list is shorter now.",
  });
  return html`<div>${body}</div>`;
}

function entryRow({ here, now }: Visit, entry: Entry): Html {
  const end = entry.expires_at;
  const until = end === undefined ? "no end" : html`until ${time(end, now)}`;
  return html`<tr><td class="lead"><span class="t-name">${artifactName(entry.artifact_name)}</span><div
class="sub">${fingerprint(
    entry.fingerprint,
  )}</div></td><td class="fill"><span class="prose">${entry.description}</span><div class="sub"><span>by
<bdi>${entry.user_name}</bdi></span></div></td><td
class="full"><span class="nowrap">since ${time(entry.timestamp, now)},</span>
<span class="nowrap">${until}</span></td>
<td class="r"><span class="row-actions beside">${linkButton(here({ allow: entry.fingerprint }), "Change", {
    kind: "small",
  })}${linkButton(here({ disallow: entry.fingerprint }), "End…", { kind: "small" })}</span></td></tr>`;
}

/** The form, with what is known about the artifact: its entry in force, or its name from the address. */
export async function allowForm(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { query, refused } = visit;
  const asked = query.get("allow") ?? "";
  const chosen = refused ? refused.fields.text("artifact_fingerprint").trim() : asked;
  const preview = FINGERPRINT.test(chosen)
    ? await askPreview(visit, { allow_artifact: { environment: environment.name, artifact_fingerprint: chosen } })
    : null;
  const name = query.get("name") ?? (chosen === asked ? runningName(preview, asked) : null);
  const known = FINGERPRINT.test(asked) ? await findKnown(visit, environment, { fingerprint: asked, name }) : null;
  const isNew = known === null || known.reason === null;
  const form = {
    name: "allow",
    fields: html`${allowFields(visit, { asked, known })}${seenField(preview === null ? "" : chosen)}`,
    cancel: visit.to.environment(environment.name, { tab: "settings" }),
  };
  return card({
    id: "h-allow",
    title: isNew ? "Allow an artifact" : "Change an allowlist entry",
    body: padded(
      preview === null
        ? formOf(visit, { ...form, submit: "Show what would change" })
        : formOf(visit, {
            ...form,
            submit: submitText(isNew ? "Allow" : "Save", preview),
            within: (buttons) =>
              impactPanel(visit, {
                id: "h-impact",
                title: html`If <bdi>${environment.name}</bdi> allows this artifact`,
                preview,
                buttons,
              }),
          }),
    ),
  });
}

const allowFields = (visit: Visit, { asked, known }: { asked: string; known: Known | null }): Html =>
  html`${textField(visit, {
    form: "allow",
    name: "artifact_fingerprint",
    label: "Fingerprint",
    value: asked,
    of: allowArtifact,
    isMono: true,
    hint: "SHA-256 of the artifact: 64 hexadecimal digits",
  })}${textField(visit, {
    form: "allow",
    name: "artifact_name",
    label: "Name",
    value: known?.name ?? "",
    of: allowArtifact,
  })}${textArea(visit, {
    form: "allow",
    name: "description",
    label: "Reason",
    value: known?.reason ?? "",
    of: allowArtifact,
    rows: 3,
    isRequired: true,
    hint: "Auditors read it. Name the decision and where it is recorded.",
  })}${textField(visit, {
    form: "allow",
    name: "expires_at",
    label: "Until (UTC, optional)",
    value: known === null || known.until === null ? "" : formatInput(known.until),
    isRequired: false,
    placeholder: formatUtc(visit.now + 30 * 86_400).slice(0, 16),
    hint: "From then on the policies decide again. Without an end, the artifact stays accepted.",
  })}`;

/** Whether the address, or a form that was refused, asks for an entry to end. */
export const asksToDisallow = ({ query, refused }: Visit): boolean =>
  refused ? refused.form === "disallow" : query.has("disallow");

/** The question before an entry ends, with what the policies say then. */
export async function disallowForm(visit: Visit, { name }: ShownEnvironment): Promise<Html> {
  const fingerprint = visit.query.get("disallow") ?? visit.refused?.fields.text("artifact_fingerprint") ?? "";
  const entry = FINGERPRINT.test(fingerprint) ? await findEntry(visit, name, fingerprint) : null;
  const back = visit.to.environment(name, { tab: "settings" });
  if (entry === null)
    return card({
      id: "h-allow",
      title: "End an allowlist entry",
      body: padded(html`<p>This artifact is not on the allowlist. <a href="${back}">Back to the settings</a></p>`),
    });
  const preview = await askPreview(visit, {
    disallow_artifact: { environment: name, artifact_fingerprint: fingerprint },
  });
  const fields = html`${hiddenField("artifact_fingerprint", fingerprint)}${textArea(visit, {
    form: "disallow",
    name: "description",
    label: "Reason",
    value: entry.description,
    of: allowArtifact,
    rows: 2,
    isRequired: true,
    hint: "Of the last entry for this artifact, which ends at once. Earlier ones stay in the audit log.",
  })}`;
  return card({
    id: "h-allow",
    title: html`End the allowlist entry of ${artifactName(entry.artifact_name)}?`,
    body: padded(
      formOf(visit, {
        name: "disallow",
        submit: submitText("End", preview),
        isDanger: true,
        fields,
        cancel: back,
        within: (buttons) =>
          impactPanel(visit, {
            id: "h-impact",
            title: html`If <bdi>${name}</bdi> no longer allows this artifact`,
            preview,
            buttons,
            note: assertNote(preview, name),
          }),
      }),
    ),
  });
}

type Known = { name: string; reason: string | null; until: number | null };

async function findKnown(
  visit: Visit,
  environment: ShownEnvironment,
  { fingerprint, name }: { fingerprint: string; name: string | null },
): Promise<Known> {
  const entry = await findEntry(visit, environment.name, fingerprint);
  return entry
    ? { name: entry.artifact_name, reason: entry.description, until: entry.expires_at ?? null }
    : { name: name ?? "", reason: null, until: null };
}
