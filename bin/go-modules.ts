/** The Go modules inside the Rego engine, from what `make rego-engine` wrote down about them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** `path` is `std` for Go's own library; `licenses`: its terms, by the names of their files. */
export type GoModule = { path: string; version: string; licenses: { name: string; text: string }[] };

/** Phrases by which licence texts are recognized, as SPDX identifiers; the first that matches counts. */
const LICENSES: readonly (readonly [id: string, phrase: RegExp])[] = [
  ["Apache-2.0", /Apache License,?\s+Version 2\.0/],
  [
    "BSD-3-Clause",
    /Redistribution and use in source and binary forms[^]*(neither the name|names of its contributors)/i,
  ],
  ["BSD-2-Clause", /Redistribution and use in source and binary forms/i],
  ["MIT", /Permission is hereby granted, free of charge, to any\s+person\s+obtaining\s+a\s+copy/],
  ["ISC", /Permission to use, copy, modify, and(\/or)? distribute this software/],
];

/** @param root of the checkout */
export const readGoModules = (root: string): GoModule[] =>
  JSON.parse(readFileSync(join(root, "src/rego/engine/modules.json"), "utf8")) as GoModule[];

/** The licences of a module as an SPDX expression. @throws Error for a text that is none of those known */
export function licenseOfModule({ path, licenses }: GoModule): string {
  const ids = licenses.flatMap(({ name, text }) => {
    // These name authors and grant rights in addition to a licence.
    if (/^(notice|patents)/i.test(name)) return [];
    const found = LICENSES.filter(([, phrase]) => phrase.test(text)).map(([id]) => id);
    if (found.length === 0) throw new Error(`${name} of the Go module ${path} is a licence that bin/ does not know`);
    // A text with three clauses matches both patterns of BSD.
    return found.includes("BSD-3-Clause") ? found.filter((id) => id !== "BSD-2-Clause") : found;
  });
  if (ids.length === 0) throw new Error(`the Go module ${path} has no licence`);
  return [...new Set(ids)].sort().join(" AND ");
}
