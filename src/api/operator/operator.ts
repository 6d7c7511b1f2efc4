/**
 * What only the operator may do: no key and no session is permitted, over HTTP or from a page. The operations are not
 * published; the command line calls them, as `assay call` does.
 */
export const OPERATOR = { origin: "assay", status: "unlisted", permission: "operator", tag: "Operator" } as const;
