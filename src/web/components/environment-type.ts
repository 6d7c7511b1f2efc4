/** The types of environments: their names, and the icon that stands beside a name. */
import type { getEnvironment } from "../../api/environments/environments.ts";
import type { AnswerOf } from "../../http/in-process.ts";
import type { Html } from "../html.ts";
import { icon } from "./icon.ts";
import type { IconName } from "./icon.ts";

type EnvironmentType = AnswerOf<typeof getEnvironment>["type"];

export const TYPES = [
  { value: "K8S", text: "Kubernetes" },
  { value: "ECS", text: "Amazon ECS" },
  { value: "lambda", text: "AWS Lambda" },
  { value: "S3", text: "Amazon S3" },
  { value: "azure-apps", text: "Azure Apps" },
  { value: "cloud-run", text: "Google Cloud Run" },
  { value: "docker", text: "Docker" },
  { value: "server", text: "Server" },
  { value: "logical", text: "Logical: several environments together" },
] as const satisfies readonly { value: EnvironmentType; text: string }[];

/** `Kubernetes`, `Logical`. */
export const typeName = (type: string): string =>
  (TYPES.find(({ value }) => value === type)?.text ?? type).replace(/:.*/, "");

const ICONS: Readonly<Record<EnvironmentType, IconName>> = {
  K8S: "container",
  ECS: "container",
  lambda: "zap",
  S3: "archive",
  "azure-apps": "broadcast",
  "cloud-run": "rocket",
  docker: "container",
  server: "server",
  logical: "link",
};

export const typeIconName = (type: string): IconName =>
  Object.hasOwn(ICONS, type) ? ICONS[type as EnvironmentType] : "server";

/** The icon of a type; the word must stand somewhere in the row. */
export const typeIcon = (type: string): Html => icon(typeIconName(type));
