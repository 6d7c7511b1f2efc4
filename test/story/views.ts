/** Saved views of the company, which the story itself, and all that is compared with it, does without. */
import type { TestServer } from "../given.ts";

const ORG = "acme";

const VIEWS = [
  {
    name: "Failing artifacts",
    list: { page: "artifacts", parameters: { state: "NON-COMPLIANT" } },
    for_everyone: true,
  },
  { name: "Kubernetes", list: { page: "environments", parameters: { type: "K8S" } }, for_everyone: true },
  {
    name: "Releases of backend-api that fail",
    list: { page: "trails", parameters: { flow: "backend-api", state: "NON-COMPLIANT" } },
  },
  { name: "Failing unit tests", list: { page: "attestations", parameters: { name: "unit", is_compliant: "false" } } },
  { name: "Nightly jobs", list: { page: "trails", parameters: { flow: "backend-api" } } },
] as const;

/** Saves them as the administrator; the flow of the last one is gone. */
export async function saveViews(server: TestServer, key: string): Promise<void> {
  for (const body of VIEWS) {
    const { status, text } = await server.call("POST", `/views/${ORG}`, { key, body });
    if (status !== 201) throw new Error(`${body.name}: ${status} ${text}`);
  }
  server.db.exec(`UPDATE views SET parameters_json = '{"flow":"nightly-jobs"}' WHERE name = 'Nightly jobs'`);
}
