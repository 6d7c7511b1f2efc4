/**
 * `assay policy check` and `assay policy preview`: the mistakes of a policy file, and what it would change. Both change
 * nothing; the check needs no data directory, and with one both work while the server runs.
 */
import { findMissingControls } from "../../../domain/policy/missing-controls.ts";
import type { PolicyDocument } from "../../../domain/policy/ast.ts";
import type { Diagnostic } from "../../../domain/policy/diagnostics.ts";
import { controlReferencesOf, parsePolicy } from "../../../domain/policy/document.ts";
import { findRulePositions } from "../../../domain/policy/rule-positions.ts";
import { findUnmetRules } from "../../../domain/policy/unmet-rules.ts";
import type { OrganizationRow } from "../../../store/accounts/organizations.ts";
import { openReader } from "../../../store/reader.ts";
import type { StoreReader } from "../../../store/reader.ts";
import type { PolicyRow } from "../../../store/policies/policies.ts";
import type { DraftPreview } from "../../../store/environments/change-previews.ts";
import type { Args } from "../../args.ts";
import { DATA_OPTIONS, readText, resolveDataDirectory } from "../../command-config.ts";
import { withDataReadOnly } from "../../data-directory.ts";
import { CommandError, EXIT, escapeLine } from "../../framework.ts";
import type { Command } from "../../framework.ts";
import { createReport, printReport, renderFileReport } from "./file-report.ts";
import { ORGANIZATION_OPTIONS, compareWith, findMissingOrganization, readOrganization } from "./organization.ts";
import { renderTable } from "../../table.ts";
import { requireEnvironment, selectOrganization, suggestNames } from "../explain.ts";
import { systemSources } from "../../../clock.ts";

const FILE = { min: 1, max: 1, names: ["FILE"] };

export const policyCheck: Command = {
  name: "policy check",
  summary: "Check a policy file without a server",
  usage: "FILE [--org NAME [--data DIRECTORY]]",
  details: [
    "Prints each mistake as FILE:LINE:COLUMN: MESSAGE, and nothing for a valid file; FILE - is standard input. Exit " +
      "code 1 for a file with mistakes. What a policy may say is in assay help policies.",
    "With --org, the file is compared with the data of an organization, which may be served meanwhile: a control " +
      "that does not exist is a mistake, and a rule that nothing there can meet is a warning, because there is no " +
      "flow, tag, attestation type or expected attestation of that name. Warnings do not change the exit code.",
  ],
  options: ORGANIZATION_OPTIONS,
  takesConfig: false,
  positionals: FILE,
  check: findMissingOrganization,
  async run(args, io) {
    const [file = ""] = args.positionals;
    const text = await readText(io, file);
    const { policy, problems } = parsePolicy(text);
    if (!policy) return printReport(io, args, createReport(file, problems));
    const found = await readOrganization(args, io, (store, organization) => ({
      problems: findControlProblems(store, organization, policy),
      warnings: compareWith(store, organization, (known) => findUnmetRules(text, policy, known)),
    }));
    return printReport(io, args, createReport(file, found?.problems ?? [], found?.warnings));
  },
};

const findControlProblems = (store: StoreReader, { id, name }: OrganizationRow, policy: PolicyDocument): Diagnostic[] =>
  findMissingControls(controlReferencesOf(policy), name, (control) => store.controls.find(id, control) !== null);

export const policyPreview: Command = {
  name: "policy preview",
  summary: "Show which running artifacts a policy file would make fail or pass",
  usage: "FILE --environment ENV [--policy NAME] [--org NAME] [--data DIRECTORY]",
  details: [
    "Evaluates the artifacts of the latest snapshot of each ENV under the policy in FILE, as the next snapshot will. " +
      "With --policy, FILE takes the place of that policy; otherwise it is evaluated as a further " +
      "one. Other policies of the environment stay as they are. --environment may be given several times.",
    "Prints the mistakes of the file as assay policy check does, with exit code 1, and its warnings before the " +
      "preview. Changes nothing, and works while the server runs.",
  ],
  options: {
    environment: {
      kind: "text",
      placeholder: "ENV",
      repeatable: true,
      description: "Environment whose running artifacts to evaluate",
    },
    policy: { kind: "text", placeholder: "NAME", description: "The stored policy that FILE would replace" },
    org: { kind: "text", placeholder: "NAME", description: "Organization; optional if only one has the environments" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: FILE,
  check: ({ texts }) =>
    texts.has("environment") ? [] : ["--environment is missing: give the environment to evaluate"],
  async run(args, io) {
    const [file = ""] = args.positionals;
    const directory = await resolveDataDirectory(args, io);
    const text = await readText(io, file);
    const { policy: document, problems } = parsePolicy(text);
    if (!document) return printReport(io, args, createReport(file, problems));
    const result = await withDataReadOnly(directory, async (db) =>
      db.transaction(() => previewFile(openReader(db, systemSources), { args, text, document }))(),
    );
    if ("problems" in result) return printReport(io, args, createReport(file, result.problems));
    const { preview } = result;
    const report = createReport(file, [], result.warnings);
    const { warnings } = report;
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ valid: true, problems: [], warnings, ...preview })}\n`);
    else io.stdout(`${renderFileReport(report)}${renderPreview(preview)}`);
    return EXIT.done;
  },
};

/** The operator waits as long as it takes; a server bounds the same evaluation (jobs/policy-previews.ts). */
const BOUNDS = {
  environments: Infinity,
  artifacts: Infinity,
  listed: Infinity,
  reasons: Infinity,
  chars: Infinity,
  isOver: () => false,
};

function previewFile(
  store: StoreReader,
  { args: { texts }, text, document }: { args: Args; text: string; document: PolicyDocument },
): { preview: DraftPreview; warnings: Diagnostic[] } | { problems: Diagnostic[] } {
  const names = texts.get("environment") ?? [];
  const organization = selectOrganization(store, texts.get("org")?.[0] ?? null, names);
  const policy = findPolicy(store, organization, texts.get("policy")?.[0] ?? null);
  const environmentIds = names.map((name) => requirePhysicalId(store, organization, name));
  const problems = findControlProblems(store, organization, document);
  if (problems.length > 0) return { problems };
  const draft = { name: policy?.name ?? "new policy", document, positions: findRulePositions(text) };
  const change = { draft, policyId: policy?.id ?? null, environmentIds: [...new Set(environmentIds)] };
  return {
    preview: store.changePreviews.previewDraft({ draft: change, at: systemSources.now() }, BOUNDS),
    warnings: compareWith(store, organization, (known) => findUnmetRules(text, document, known)),
  };
}

/** @throws CommandError that suggests similar names */
function findPolicy(store: StoreReader, organization: OrganizationRow, name: string | null): PolicyRow | null {
  if (name === null) return null;
  const policy = store.policies.find(organization.id, name);
  if (policy) return policy;
  const names = store.policies.list(organization.id).map((row) => row.name);
  throw new CommandError([
    `Policy '${name}' does not exist in organization '${organization.name}'`,
    ...suggestNames(name, names),
  ]);
}

/** @throws CommandError, also for an archived environment, which nothing re-evaluates */
function requirePhysicalId(store: StoreReader, organization: OrganizationRow, name: string): number {
  const environment = requireEnvironment(store, organization, name);
  if (environment.archived_at !== null) throw new CommandError(`environment '${name}' is archived`);
  if (environment.type === "logical")
    throw new CommandError(`environment '${name}' is logical: give its members instead`);
  return environment.id;
}

/** A summary of each environment, then one table of all changed artifacts with a line for each reason. */
function renderPreview({ environments }: DraftPreview): string {
  const summaries = environments.map((environment) => `${escapeLine(summaryOf(environment))}\n`);
  const rows = environments.flatMap(rowsOf);
  const headers = ["ENVIRONMENT", "ARTIFACT", "FINGERPRINT", "BEFORE", "AFTER", "REASON"];
  return `${summaries.join("")}\n${renderTable(headers, rows, "No verdict would change.")}`;
}

type EnvironmentPreview = DraftPreview["environments"][number];

function summaryOf(preview: EnvironmentPreview): string {
  const { environment, snapshot, before, after, artifacts } = preview;
  if (snapshot === 0) return `${environment} has no snapshot yet.`;
  const counts = [
    `${preview.would_fail} would fail`,
    `${preview.would_pass} would pass`,
    `${preview.unchanged} would stay as they are`,
    ...(preview.kept_by_allowlist > 0 ? [`${preview.kept_by_allowlist} of these because of the allowlist`] : []),
    ...(preview.unknown > 0 ? [`${preview.unknown} cannot be evaluated`] : []),
    ...(preview.stale > 0 ? [`${preview.stale} have changed facts and are re-evaluated with the next report`] : []),
  ];
  const verdict = before === after ? `stays ${after}` : `is ${before} and would be ${after}`;
  return `${environment}#${snapshot} ${verdict}. Of ${artifacts} running artifacts: ${counts.join(", ")}.`;
}

function rowsOf({ environment, flips, allowlisted, unknown_artifacts }: EnvironmentPreview): string[][] {
  const changed = [
    ...flips.map((artifact) => ({ ...artifact, note: [] as string[] })),
    ...allowlisted.map((artifact) => ({ ...artifact, note: ["it is on the allowlist"] })),
  ].flatMap(({ name, fingerprint, before, after, reasons, reasons_before, note }) => {
    const texts = [
      ...note,
      ...reasons.map(({ line, text }) => (line === null ? text : `line ${line}: ${text}`)),
      ...(after === "COMPLIANT" && reasons.length === 0 ? reasons_before.map((text) => `no longer: ${text}`) : []),
    ];
    const [first = ""] = texts;
    return [
      [environment, name, fingerprint, before, after, first],
      ...texts.slice(1).map((text) => ["", "", "", "", "", text]),
    ];
  });
  return [
    ...changed,
    ...unknown_artifacts.map(({ name, fingerprint, reason }) => [
      environment,
      name,
      fingerprint,
      "",
      "UNKNOWN",
      reason,
    ]),
  ];
}
