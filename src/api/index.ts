/** All operations of the API: everything that the files of this folder export as an operation. */
import type { AssayOperation } from "./kit.ts";
import * as asserts from "./asserts.ts";
import * as flows from "./flows.ts";
import * as meta from "./meta.ts";
import * as organizations from "./organizations.ts";
import * as policies from "./policies.ts";
import * as schemas from "./schemas.ts";
import * as tags from "./tags.ts";
import * as users from "./users.ts";

const isOperation = (value: unknown): value is AssayOperation =>
  typeof value === "object" && value !== null && "handle" in value && "permission" in value;

const resources: readonly object[] = [asserts, flows, meta, organizations, policies, schemas, tags, users];

export const operations: readonly AssayOperation[] = resources.flatMap((resource) =>
  Object.values(resource).flat().filter(isOperation),
);
