/**
 * What runs in clusters, in the words of the page about jobs of Kubernetes, and the snapshots that follow
 * (`test/README.md`). The lines of a block happen one after the other, in one organization.
 */
import { createHash } from "node:crypto";
import type { TestServer } from "../given.ts";
import { success } from "./facts.ts";
import type { At } from "./facts.ts";

/** `web-1 web:7`: the pod and its image; the fingerprint follows from the image. */
const podOf = (words: string): object => {
  const { 1: podName = "", 2: image = "", 3: job } = /^(\S+) (\S+)( of a Job)?$/.exec(words) ?? [];
  if (image === "") throw new Error(`'${words}' is not POD IMAGE`);
  const owner = { apiVersion: "batch/v1", kind: "Job", name: podName, uid: podName };
  return {
    podName,
    namespace: "shop",
    owners: job === undefined ? null : [owner],
    digests: { [image]: createHash("sha256").update(image).digest("hex") },
    creationTimestamp: 1_700_000_000,
  };
};

const STATES = new Map([
  [true, "compliant"],
  [false, "non-compliant"],
  [null, "unknown"],
]);

type Artifact = { name: string; annotation: { type: string } };

export type Clusters = {
  /**
   * Makes something happen, and returns what follows as the page words it: the new snapshot with its verdict and
   * changes, the verdict of `ENV is`, or `none`.
   * @throws Error for unknown words
   */
  happens(what: string): Promise<string>;
};

/** @param policy the name of a policy of the organization, null for environments without one */
export function openClusters(server: TestServer, at: At, policy: string | null): Clusters {
  const { given } = server;
  const { org, key } = at;
  const environments = new Set<string>();

  async function environment(name: string): Promise<string> {
    if (!environments.has(name)) await given.environment(at, { name, policies: policy === null ? [] : [policy] });
    environments.add(name);
    return name;
  }
  const readLatest = async (name: string) => (await server.call("GET", `/snapshots/${org}/${name}/-1`, { key })).body;
  const readState = async (name: string): Promise<boolean | null> =>
    (await server.call("GET", `/environments/${org}/${name}`, { key })).body.state;

  async function report(name: string, pods: readonly string[]): Promise<string> {
    const artifacts = pods.map(podOf);
    const path = `/environments/${org}/${await environment(name)}/report/K8S`;
    const { status, text } = await server.call("PUT", path, { key, body: { artifacts } });
    if (status === 200) return "none";
    if (status !== 201) throw new Error(text);
    return describe(name);
  }
  async function describe(name: string): Promise<string> {
    const { index, artifacts } = await readLatest(name);
    const changes = (artifacts as Artifact[]).flatMap(({ name: image, annotation: { type } }) =>
      type === "unchanged" ? [] : [`${image} ${type}`],
    );
    return [`snapshot ${index}`, STATES.get(await readState(name)), ...changes.sort()].join(", ");
  }
  async function allow(image: string, name: string): Promise<string> {
    const before = await readLatest(name);
    const body = {
      artifact_fingerprint: createHash("sha256").update(image).digest("hex"),
      artifact_name: image,
      description: "a job of the platform",
    };
    await success(server.call("PUT", `/allowlists/${org}/${name}`, { key, body }));
    return (await readLatest(name)).index === before.index ? "none" : describe(name);
  }

  const HAPPENINGS: readonly (readonly [RegExp, (...words: string[]) => Promise<string>])[] = [
    [
      /^(\S+) is reported to flow (\S+)(?: \((\S+)=(\S+)\))?$/,
      async (image = "", flow = "", tag, value = "") => {
        await given.flow(at, { name: flow });
        if (tag !== undefined)
          await success(
            server.call("PATCH", `/tags/${org}/flow/${flow}`, { key, body: { set_tags: { [tag]: value } } }),
          );
        const fingerprint = createHash("sha256").update(image).digest("hex");
        await given.artifact(at, { flow, trail: await given.trail(at, { flow }), fingerprint, filename: image });
        return "none";
      },
    ],
    [/^(\S+) is allowed in (\S+)$/, (image = "", name = "") => allow(image, name)],
    [
      /^(\S+) is a logical environment of (\S+) and (\S+)$/,
      async (name = "", ...members) => {
        for (const member of members) await environment(member);
        await given.environment(at, { name, members });
        return "none";
      },
    ],
    [
      /^(\S+) has no policy$/,
      async (name = "") => {
        environments.add(await given.environment(at, { name }));
        return "none";
      },
    ],
    [/^(\S+) is$/, async (name = "") => STATES.get(await readState(name)) ?? ""],
    [
      /^in (\S+) (?:run|runs): (.+)$/,
      async (name = "", pods = "") => report(name, pods === "nothing" ? [] : pods.split(", ")),
    ],
  ];
  return {
    async happens(what) {
      for (const [pattern, happen] of HAPPENINGS) {
        const match = pattern.exec(what);
        if (match) return happen(...match.slice(1));
      }
      throw new Error(`'${what}' is not something that happens`);
    },
  };
}
