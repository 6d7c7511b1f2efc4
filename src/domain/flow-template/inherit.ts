// Chooses the template of a trail whenever the trail is begun, the first time or again (semantics 2.3, 13.13).
// Templates are write-once rows, so the key of a template stands for its text.

export type InheritanceInput = {
  /** The current state of the trail; null when it is being created. */
  trail: { templateId: number; inherited: boolean } | null;
  /** The current template of the flow. */
  flowTemplateId: number;
  /** The template in the request that begins the trail; null without one. */
  ownTemplateId: number | null;
};

/**
 * `inherited`: a new trail takes the flow's template; `given`: a new trail has its own; `re-inherited`: an existing
 * trail takes the flow's current one; `replaced`: an existing trail gets its own; `kept`: an explicit template stays,
 * because the request has none.
 */
type InheritanceOutcome = "inherited" | "given" | "re-inherited" | "replaced" | "kept";

export type Inheritance = {
  outcome: InheritanceOutcome;
  templateId: number;
  /** Whether the trail takes the flow's template again when it is next begun without one. */
  inherited: boolean;
  /** Whether the template of an existing trail changed. */
  changed: boolean;
};

/**
 * Chooses a trail's template. A template in the request always wins, and makes the trail independent of its flow even
 * if the text is the same. Without one, an inherited template follows the flow and an explicit one stays (semantics
 * 2.3).
 */
export function inheritTemplate({ trail, flowTemplateId, ownTemplateId }: InheritanceInput): Inheritance {
  if (ownTemplateId !== null)
    return {
      outcome: trail === null ? "given" : "replaced",
      templateId: ownTemplateId,
      inherited: false,
      changed: trail !== null && trail.templateId !== ownTemplateId,
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
