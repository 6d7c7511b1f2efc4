// Which template a trail has after it was begun, or begun again: the one place that decides it (semantics 2.3, decision
// 13). Templates are write-once rows: the key of a template stands for its text.

export type InheritanceInput = {
  /** What the trail has now; null when it is being created. */
  trail: { templateId: number; inherited: boolean } | null;
  /** The template that the flow has now. */
  flowTemplateId: number;
  /** The template that came with this begin; null when none did. */
  ownTemplateId: number | null;
};

/**
 * `inherited`: a new trail takes the flow's; `given`: a new trail brings its own; `re-inherited`: the flow's current
 * one; `replaced`: by the one that was brought; `kept`: an explicit template stays when none is brought.
 */
export type InheritanceOutcome = "inherited" | "given" | "re-inherited" | "replaced" | "kept";

export type Inheritance = {
  outcome: InheritanceOutcome;
  templateId: number;
  /** Whether a later begin without a template follows the flow again. */
  inherited: boolean;
  /** Whether an existing trail has another template than before. */
  changed: boolean;
};

/**
 * Decides a trail's template. A template that is brought always counts, and makes the trail independent of its flow
 * even if the text is the flow's; without one an inherited template follows the flow and an explicit one stays
 * (semantics 2.3).
 */
export function inheritTemplate({
  trail,
  flowTemplateId,
  ownTemplateId: givenTemplateId,
}: InheritanceInput): Inheritance {
  if (givenTemplateId !== null)
    return {
      outcome: trail === null ? "given" : "replaced",
      templateId: givenTemplateId,
      inherited: false,
      changed: trail !== null && trail.templateId !== givenTemplateId,
    };
  if (trail === null) return { outcome: "inherited", templateId: flowTemplateId, inherited: true, changed: false };
  if (!trail.inherited) return { outcome: "kept", templateId: trail.templateId, inherited: false, changed: false };
  return {
    outcome: "re-inherited",
    templateId: flowTemplateId,
    inherited: true,
    changed: trail.templateId !== flowTemplateId,
  };
}
