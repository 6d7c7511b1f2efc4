/** What reports to an environment of each type, and when a reporter is silent. */
import type { getEnvironment } from "../../../api/environments/environments.ts";
import type { AnswerOf } from "../../../http/in-process.ts";

/** An environment as it is read alone. */
export type ShownEnvironment = AnswerOf<typeof getEnvironment>;
type EnvironmentType = ShownEnvironment["type"];

/** The command that reports what runs in an environment. */
export function reportCommand({ type, name }: Pick<ShownEnvironment, "type" | "name">): string {
  const commands: Readonly<Record<Exclude<EnvironmentType, "logical">, string>> = {
    K8S: `kosli snapshot k8s ${name}`,
    ECS: `kosli snapshot ecs ${name} --clusters CLUSTER`,
    lambda: `kosli snapshot lambda ${name}`,
    S3: `kosli snapshot s3 ${name} --bucket BUCKET`,
    "azure-apps": `kosli snapshot azure ${name} --azure-subscription-id ID --azure-resource-group-name GROUP`,
    "cloud-run": `kosli snapshot cloud-run ${name} --project PROJECT --region REGION`,
    docker: `kosli snapshot docker ${name}`,
    server: `kosli snapshot server ${name} --paths /opt/service`,
  };
  return type === "logical" ? `kosli join environment --physical NAME --logical ${name}` : commands[type];
}

/** Seconds without a report after which a reporter is marked: reporters usually run every few minutes. */
const SILENT_AFTER_S = 86_400;

/** Whether the reporter of an environment seems to have stopped. */
export const isSilent = ({ last_reported_at }: Pick<ShownEnvironment, "last_reported_at">, now: number): boolean =>
  last_reported_at !== null && now - last_reported_at > SILENT_AFTER_S;

/** What archiving adds to a name. */
const ARCHIVED = /-archived-at-\d+$/;
export const isArchived = (name: string): boolean => ARCHIVED.test(name);
export const formerName = (name: string): string => name.replace(ARCHIVED, "");
