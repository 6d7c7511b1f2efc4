/** The way to an audit binder from the page of what it is about. */
import { getAuditBinder } from "../../../api/environments/audit-binder.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { linkButton } from "../../components/layout.ts";

/** @param about what the binder is about, and its period */
export const binderButton = (
  { may, to }: Pick<Visit, "may" | "to">,
  about: Parameters<Visit["to"]["auditBinder"]>[0],
  { text = "Audit binder", kind = "" }: { text?: string; kind?: "" | "small" } = {},
): Html | false => may(getAuditBinder) && linkButton(to.auditBinder(about), text, { icon: "log", kind });
