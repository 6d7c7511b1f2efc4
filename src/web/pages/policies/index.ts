/** Policies. */
import type { Page } from "../../page/page.ts";
import { policiesPage } from "./policies.ts";
import { policyPage } from "./policy.ts";

export const policiesPages: readonly Page[] = [policiesPage, policyPage];
