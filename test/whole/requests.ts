/** Requests to any operation, generated from its declaration: valid ones, and ones with a fault. */
import { Agent, request as send } from "node:http";
import fc from "fast-check";
import type { AssayOperation } from "../../src/api/context.ts";
import { arbitraryOf } from "./shapes.ts";
import type { Shape } from "./shapes.ts";
import type { World } from "./world.ts";

export type Role = keyof World["keys"] | "anonymous" | "impostor";

/** A request before it is serialized, where faults are injected. Segments and query are written literally. */
export type Draft = {
  operation: AssayOperation;
  role: Role;
  segments: string[];
  query: string[];
  json: unknown;
  file: string | null;
  headers: Record<string, string>;
  /** Changes the bytes of the body, for faults of the body. */
  rewrite: ((bytes: Buffer) => Buffer) | null;
  /** Whether the path may lead to another operation, or to none. */
  leavesOperation: boolean;
};

/** A value that exists, or might: resolved when the whole request is known, so that its parts belong together. */
class Reference {
  readonly pool: string;
  readonly pick: number;
  constructor(pool: string, pick: number) {
    this.pool = pool;
    this.pick = pick;
  }
}

/** Fields and parameters whose values are those of another name. */
const SAME_AS: Readonly<Record<string, string>> = {
  flow: "flow_name",
  flow_names: "flow_name",
  flows: "flow_name",
  environment_name: "env_name",
  environments: "env_name",
  env: "env_name",
  trail: "trail_name",
  policies: "policy_name",
  policy_names: "policy_name",
  included_environments: "physical_env",
  physical_env_name: "physical_env",
  artifact_fingerprint: "fingerprint",
  git_commit: "commit_sha",
  sha1: "commit_sha",
  commit_list: "commit_sha",
  snappish1: "snappish",
  snappish2: "snappish",
  control: "identifier",
  type_name: "custom_attestation_type_name",
  repo_names: "repo_name",
  repo_inner_id: "repo",
  tags: "tag",
  for_control: "identifier",
};
/** These mean something different in every operation. */
const NEW_NAMES = new Set(["name", "new_name", "repo_id", "identifier", "resource_type", "resource_id"]);

const poolOf = (name: string, world: World): string | null => {
  const pool = SAME_AS[name] ?? name;
  return (world.values[pool]?.length ?? 0) > 0 ? pool : null;
};

const reference = (pool: string): fc.Arbitrary<Reference> =>
  fc.nat({ max: 1_000 }).map((pick) => new Reference(pool, pick));

/** The arbitrary of a named value: mostly an existing one, where the name says of what. */
function valueUnder(name: string, shape: Shape, world: World, isNew: boolean): fc.Arbitrary<unknown> {
  const made = arbitraryOf(shape, (inner, innerShape) => valueUnder(inner, innerShape, world, NEW_NAMES.has(inner)));
  const pool = isNew || shape.type === "number" || shape.type === "integer" ? null : poolOf(name, world);
  if (pool === null || shape.enum || shape.const !== undefined) return made;
  const isList = shape.type === "array" || shape.anyOf?.some((branch) => branch.type === "array");
  const one = isList ? fc.array(reference(pool), { minLength: 1, maxLength: 2 }) : reference(pool);
  return fc.oneof({ weight: 5, arbitrary: one }, { weight: 1, arbitrary: made });
}

const asJson = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(asJson);
  if (typeof value === "object" && value !== null && !(value instanceof Reference))
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, asJson(item)]));
  return value;
};

/** Replaces references by values: of the subject of the path, or any existing ones. */
function resolve(value: unknown, world: World, subject: Readonly<Record<string, string>>): unknown {
  if (value instanceof Reference) {
    const known = subject[value.pool];
    const pool = world.values[value.pool] ?? [];
    return known !== undefined && value.pick % 6 !== 0 ? known : pool[value.pick % pool.length];
  }
  if (Array.isArray(value)) return value.map((item) => resolve(item, world, subject));
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item, world, subject)]));
  return value;
}

/** The operation's own example, with existing values in place of its made-up names. */
function exampleBody(value: unknown, world: World, shape: Shape = {}): unknown {
  if (Array.isArray(value)) return value.map((item) => exampleBody(item, world, shape.items));
  if (typeof value !== "object" || value === null) return value;
  const shapes = propertiesFor(value, shape);
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => {
      const { enum: words, const: word } = shapes[name] ?? {};
      const pool = NEW_NAMES.has(name) || words !== undefined || word !== undefined ? null : poolOf(name, world);
      if (pool === null) return [name, exampleBody(item, world, shapes[name])];
      if (Array.isArray(item)) return [name, item.map((_one, index) => new Reference(pool, 4 * index + 1))];
      return [name, typeof item === "string" ? new Reference(pool, 1) : exampleBody(item, world, shapes[name])];
    }),
  );
}

/** The shapes of an object's fields; of a union, those of the branch that has all of them. */
const propertiesFor = (value: object, { properties, anyOf = [] }: Shape): Readonly<Record<string, Shape>> =>
  properties ??
  anyOf.find((branch) => branch.properties && Object.keys(value).every((name) => name in (branch.properties as object)))
    ?.properties ??
  {};

type Parameters = { properties: Record<string, Shape>; required?: string[] };

/** Requests that are valid by their shapes: they are refused only for what they refer to. */
export function valid(operation: AssayOperation, world: World): fc.Arbitrary<Draft> {
  const names = [...operation.path.matchAll(/\{(\w+)\*?\}/g)]
    .map((match) => match[1] as string)
    .filter((name) => name !== "org");
  for (const name of names)
    if (!(name in world.values))
      throw new Error(
        `${operation.id}: test/whole/world.ts does not say what values the path parameter ${name} may take (VALUES)`,
      );
  const params = operation.params as unknown as Parameters;
  const path = fc.record(
    Object.fromEntries(
      names.map((name) => {
        const shape = params.properties[name] ?? {};
        const made = arbitraryOf({ minLength: 1, ...shape } as Shape).filter((value) => value !== "");
        return [
          name,
          fc.oneof(
            { weight: 12, arbitrary: world.values[name]?.length ? reference(name) : made },
            { weight: 1, arbitrary: made },
          ),
        ];
      }),
    ),
  );
  const { properties, required = [] } = operation.query as unknown as Parameters;
  const needed = required.filter((name) => !("default" in (properties[name] ?? {})));
  // Few at a time, because too many filters find nothing.
  const optional = Object.keys(properties).filter((name) => !needed.includes(name));
  const chosen = fc.subarray(optional, { maxLength: Math.min(3, optional.length) });
  const some = chosen.chain((names) =>
    fc.record(
      Object.fromEntries(
        [...needed, ...names].map((name) => [name, valueUnder(name, properties[name] as Shape, world, false)]),
      ),
    ),
  );
  const query = fc.oneof(
    { weight: 6, arbitrary: some },
    { weight: 1, arbitrary: fc.constant(exampleBody(operation.example.query ?? {}, world) as Record<string, unknown>) },
  );
  const body = operation.body.kind === "none" ? fc.constant(undefined) : bodyOf(operation, world);
  const file =
    operation.body.kind === "form" && operation.body.file
      ? fc.option(fc.constantFrom(operation.example.file ?? "{}", "", "x: [", "version: 1"), { freq: 3 })
      : fc.constant(null);
  const role = fc.oneof(
    { weight: 10, arbitrary: fc.constant<Role>("admin") },
    {
      weight: 4,
      arbitrary: fc.constantFrom<Role>("member", "snapshotter", "reader", "bot", "stranger", "anonymous", "impostor"),
    },
  );
  const org = fc.oneof(
    { weight: 14, arbitrary: fc.constant(world.org) },
    { weight: 1, arbitrary: fc.constantFrom(world.open, world.plain, "no-such-org") },
  );
  return fc.record({ path, query, body, file, role, org, subject: fc.nat({ max: 1_000 }) }).map((parts) => {
    const subject = { ...subjectFor(names, world, parts.subject), ...world.places[operation.id] };
    const found = resolve(parts.path, world, subject) as Record<string, unknown>;
    const segments = operation.path
      .split("/")
      .slice(1)
      .map((segment) => {
        const name = /^\{(\w+)(\*?)\}$/.exec(segment);
        if (!name) return segment;
        const value = name[1] === "org" ? parts.org : String(found[name[1] as string]);
        return name[2] ? value.split("/").map(encode).join("/") : encode(value);
      });
    const query = Object.entries(resolve(parts.query, world, subject) as Record<string, unknown>);
    return {
      operation,
      role: parts.role,
      segments,
      query: query.flatMap(([name, value]) =>
        (Array.isArray(value) ? value : [value]).map((one) => `${encode(name)}=${encode(String(one))}`),
      ),
      json: parts.body === undefined ? undefined : asJson(resolve(parts.body, world, subject)),
      file: parts.file,
      headers: {},
      rewrite: null,
      leavesOperation: operation.path.includes("*}"),
    };
  });
}

const encode = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replace(/^\.{1,2}$/, (dots) => dots.replaceAll(".", "%2E"));

function bodyOf(operation: AssayOperation, world: World): fc.Arbitrary<unknown> {
  const { schema, kind } = operation.body as { kind: string; schema: Shape; optional?: boolean };
  const made = arbitraryOf(schema, (name, shape) => valueUnder(name, shape, world, NEW_NAMES.has(name)));
  const example = fc.constant(exampleBody(operation.example.body, world, schema));
  const least = arbitraryOf(
    {
      ...schema,
      properties: Object.fromEntries(
        Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name)),
      ),
    },
    (name, shape) => valueUnder(name, shape, world, NEW_NAMES.has(name)),
  );
  // The example with some regenerated fields: close to a useful request, and rarely the same twice.
  const mixed = fc.tuple(example, made, fc.nat()).map(([one, other, mask]) => {
    const fields = Object.entries(other as Record<string, unknown>).filter(
      (_field, index) => (mask >> (index % 30)) & 1,
    );
    return { ...(one as object), ...Object.fromEntries(fields.slice(0, 2)) };
  });
  const bodies = [
    { weight: 3, arbitrary: example },
    { weight: 4, arbitrary: mixed },
    { weight: 2, arbitrary: least },
    { weight: 2, arbitrary: made },
  ];
  return kind === "json" && (operation.body as { optional: boolean }).optional
    ? fc.oneof(...bodies, { weight: 1, arbitrary: fc.constantFrom(null, undefined) })
    : fc.oneof(...bodies);
}

/** A subject that has the most values of the path. */
function subjectFor(names: readonly string[], world: World, pick: number): Readonly<Record<string, string>> {
  const fits = (subject: Readonly<Record<string, string>>): number => names.filter((name) => name in subject).length;
  const most = Math.max(0, ...world.subjects.map(fits));
  const best = most === 0 ? [] : world.subjects.filter((subject) => fits(subject) === most);
  return best[pick % best.length] ?? {};
}

export type Written = {
  method: string;
  target: string;
  headers: Record<string, string>;
  body: Buffer | null;
  draft: Draft;
};

const BOUNDARY = "----boundary-of-the-form";

export function write(draft: Draft, world: World): Written {
  const { operation, role, segments, query, json, file } = draft;
  const headers: Record<string, string> = {};
  const key = role === "anonymous" ? null : role === "impostor" ? "no-such-key" : world.keys[role];
  if (key !== null) headers["Authorization"] = `Bearer ${key}`;
  let body: Buffer | null = null;
  if (json !== undefined || (file !== null && operation.body.kind === "form")) {
    const text = json === undefined ? "" : serialize(json);
    if (operation.body.kind === "form") {
      headers["Content-Type"] = `multipart/form-data; boundary=${BOUNDARY}`;
      body = Buffer.from(formText(operation.body, json === undefined ? null : text, file));
    } else {
      headers["Content-Type"] = "application/json; charset=utf-8";
      body = Buffer.from(text);
    }
  }
  if (draft.rewrite) body = draft.rewrite(body ?? Buffer.alloc(0));
  if (body) headers["Content-Length"] = String(body.length);
  return {
    method: operation.method,
    target: `/api/v2/${segments.join("/")}${query.length > 0 ? `?${query.join("&")}` : ""}`,
    headers: { ...headers, ...draft.headers },
    body,
    draft,
  };
}

/** Writes a placeholder for a number that JavaScript cannot represent. */
export const HUGE = "@1e999@";
const serialize = (json: unknown): string => JSON.stringify(json).replaceAll(`"${HUGE}"`, "1e999");

function formText(
  shape: { part: string; file: { part: string } | null },
  text: string | null,
  file: string | null,
): string {
  const parts: string[] = [];
  if (text !== null)
    parts.push(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${shape.part}"\r\n\r\n${text}\r\n`);
  if (file !== null && shape.file)
    parts.push(
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${shape.file.part}"; filename="a file.txt"\r\n` +
        `Content-Type: text/plain\r\n\r\n${file}\r\n`,
    );
  return `${parts.join("")}--${BOUNDARY}--\r\n`;
}

export type Received = { status: number; headers: Record<string, string | string[] | undefined>; text: string };

/** Sends a serialized request unchanged. */
export function createClient(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const { hostname, port } = new URL(url);
  return {
    send: ({ method, target, headers, body }: Omit<Written, "draft">): Promise<Received> =>
      new Promise((resolve, reject) => {
        const sent = send({ hostname, port, method, path: target, headers, agent }, (response) => {
          const chunks: Buffer[] = [];
          response.on("error", reject);
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("end", () =>
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              text: Buffer.concat(chunks).toString("utf8"),
            }),
          );
        });
        sent.on("error", reject);
        sent.end(body ?? undefined);
      }),
    close: () => agent.destroy(),
  };
}
