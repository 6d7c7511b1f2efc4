/** `/{org}/policies/{policy}`: its text or editor, versions, environments and events. */
import { attachPolicyToEnv, detachPolicyFromEnv } from "../../../api/environments/environment-policies.ts";
import { getPolicy, putPolicy } from "../../../api/policies/policies.ts";
import { asksForPreview } from "../../components/editor.ts";
import { icon } from "../../components/icon.ts";
import { pageHead, tabs } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { showPolicyThen } from "./past-policies.ts";
import { latestOf } from "./policy-data.ts";
import type { Policy } from "./policy-data.ts";
import { checkDraft, EDIT_FORM, editTab, storeDraft, textTab } from "./policy-edit.ts";
import { environmentsTab } from "./policy-environments.ts";
import { eventsTab } from "./policy-events.ts";
import type { PreviewAnswer } from "./policy-impact.ts";
import { versionsAsked, versionsTab } from "./policy-versions.ts";

const TABS = ["text", "versions", "environments", "events"] as const;
type Tab = (typeof TABS)[number];

/** A version in the address is shown in its tab, whatever the tab; a refused form in the tab that has it. */
function tabOf({ query, refused }: Visit): Tab {
  if (refused?.form === EDIT_FORM) return "text";
  if (refused) return "environments";
  if (versionsAsked(query).version !== null) return "versions";
  return TABS.find((tab) => tab === query.get("tab")) ?? "text";
}

function filesFor(tab: Tab, query: URLSearchParams): string[] {
  if (tab === "text") return ["latest"];
  const asked = tab === "versions" ? Object.values(versionsAsked(query)) : [];
  const numbers = asked.flatMap((number) => (number === null ? [] : [String(number)]));
  return numbers.length === 0 ? ["none"] : numbers;
}

const nameOf = ({ params }: Visit): string => params["policy"] ?? "";

async function show(visit: Visit, preview: PreviewAnswer | null): Promise<Content> {
  const { call, query, to, may, refused } = visit;
  const tab = tabOf(visit);
  const policy = await call(getPolicy, {
    params: { policy_name: nameOf(visit) },
    query: { files: filesFor(tab, query) },
  });
  const isEditor = tab === "text" && may(putPolicy);
  const hasDraft = refused?.form === EDIT_FORM;
  const draft = hasDraft && html`<span class="badge wait">${icon("pencil")}Draft</span>`;
  const next = (latestOf(policy)?.version ?? 0) + 1;
  const main = isEditor ? await editTab(visit, policy, preview) : await tabContent(tab, visit, policy);
  return {
    title: policy.name,
    section: "policies",
    crumbs: [{ text: "Policies", href: to.policies() }],
    hasEditor: isEditor,
    main: html`${pageHead({
      title: html`<bdi>${policy.name}</bdi>`,
      state: html`${tag(next === 1 ? "no text yet" : `v${next - 1} in force`)}${draft}`,
      sub: policy.description,
    })}${policyTabs(visit, policy, tab)}<div class="stack">${main}</div>`,
  };
}

function policyTabs({ to, may }: Visit, policy: Policy, current: Tab): Html {
  const item = (tab: Tab, text: string, count?: number) => ({
    text,
    href: to.policy(policy.name, tab === "text" ? {} : { tab }),
    isCurrent: tab === current,
    ...(count === undefined ? {} : { count }),
  });
  return tabs("Policy", [
    item("text", may(putPolicy) ? "Edit" : "Text"),
    item("versions", "Versions", policy.versions.length),
    item("environments", "Environments", policy.consuming_envs.length),
    item("events", "Events"),
  ]);
}

function tabContent(tab: Tab, visit: Visit, policy: Policy): Html | Promise<Html> {
  if (tab === "versions") return versionsTab(visit, policy);
  if (tab === "environments") return environmentsTab(visit, policy);
  return tab === "events" ? eventsTab(visit, policy) : textTab(visit, policy);
}

export const policyPage = page({
  path: "/{org}/policies/{policy}",
  past: "then",
  show: (visit) => (visit.moment ? showPolicyThen(visit, nameOf(visit), visit.moment) : show(visit, null)),
  forms: {
    [EDIT_FORM]: form(putPolicy, async (visit, fields) => {
      const name = nameOf(visit);
      if (asksForPreview(fields)) {
        const { typed, preview } = await checkDraft(visit, fields, { form: EDIT_FORM, body: { policy_name: name } });
        return { show: await show(typed, preview) };
      }
      const policy = await visit.call(getPolicy, { params: { policy_name: name }, query: { files: ["latest"] } });
      return { go: visit.to.policy(name), done: await storeDraft(visit, policy, fields) };
    }),
    attach: form(attachPolicyToEnv, async (visit, fields) => {
      const name = nameOf(visit);
      const env_name = fields.text("env_name").trim();
      await visit.call(attachPolicyToEnv, { params: { env_name }, body: { policy_names: [name] } });
      return { go: visit.to.policy(name, { tab: "environments" }), done: "attached" };
    }),
    detach: form(detachPolicyFromEnv, async (visit, fields) => {
      const name = nameOf(visit);
      const env_name = fields.text("env_name");
      await visit.call(detachPolicyFromEnv, { params: { env_name }, body: { policy_names: [name] } });
      return { go: visit.to.policy(name, { tab: "environments" }), done: "detached" };
    }),
  },
});
