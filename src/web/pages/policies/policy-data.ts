/** What the tabs of a policy share. */
import type { getPolicy } from "../../../api/policies/policies.ts";
import type { AnswerOf } from "../../../http/in-process.ts";

export type Policy = AnswerOf<typeof getPolicy>;
export type PolicyVersion = Policy["versions"][number];

/** The version in force; null for a policy without a file. */
export const latestOf = ({ versions }: Policy): PolicyVersion | null => versions.at(-1) ?? null;
