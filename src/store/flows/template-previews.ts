/**
 * What another template of a flow would turn. Storing it turns nothing, because trails keep the template that they
 * began with (semantics 2.3). So the newest trails are evaluated as if they began again after the change, with what
 * they have now: as the trails that pipelines begin next, if they report the same. Writes nothing.
 */
import type { State } from "../../domain/compliance/artifact.ts";
import type { ShortCause } from "../../domain/compliance/cause-words.ts";
import type { TrailEvaluation } from "../../domain/compliance/trail.ts";
import type { Template } from "../../domain/flow-template/template.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { Db } from "../db/types.ts";
import type { flowStore } from "./flows.ts";
import { parseTemplateRow } from "./templates.ts";
import type { templateStore } from "./templates.ts";
import type { trailEvaluationStore } from "./trail-evaluation.ts";
import type { trailStore } from "./trails.ts";

/** Trails that another template is tried on. */
export const MAX_NEXT_TRAILS = 20;

/** `parsedJson`: the template as `intern` stores it, null for a text that is quick to parse. `at`: epoch seconds. */
export type TemplateQuestion = {
  flowId: number;
  draft: { text: string; parsedJson: string | null };
  at: number;
};

/** `trails`: to evaluate; `searched`: to look at for those, newest first. `isOver` is asked before each. */
export type TemplateBounds = { trails: number; searched: number; isOver(): boolean };

type Causes = { causes: ShortCause[]; further_causes: number };
/** `causes`: of `after`. */
type TrailTurn = Causes & { trail: string; before: State; after: State };

/** What the next trails of a flow would be. */
type NextTrails = {
  flow: string;
  /** Trails that were evaluated, newest first. */
  trails: number;
  /** Trails that were passed over, because they have a template of their own. */
  own_template: number;
  /** Older trails, which were not looked at. */
  left: number;
  unchanged: number;
  would_fail: number;
  would_pass: number;
  unknown: number;
  flips: TrailTurn[];
  unknown_trails: { trail: string; reason: string }[];
};

/** `stopped`: as other previews say it; null where the time was enough. */
export type TemplatePreview = {
  next_trails: NextTrails;
  stopped: { reason: "time"; environments_left: number; artifacts_left: number } | null;
};

type TemplatePreviewParts = {
  explain(
    organizationId: number,
    computed: Pick<TrailEvaluation, "compliance_status" | "reasons">,
    at: { flow: string; trail: string },
  ): Causes;
  evaluation: Pick<ReturnType<typeof trailEvaluationStore>, "get" | "computeBegun">;
  flows: Pick<ReturnType<typeof flowStore>, "get">;
  templates: Pick<ReturnType<typeof templateStore>, "getParsed">;
  trails: Pick<ReturnType<typeof trailStore>, "count">;
};

type NewestRow = { id: number; name: string; template_inherited: 0 | 1 };
type Place = { organizationId: number; flow: string; present: Template; draft: Template; at: number };

export function templatePreviewStore(db: Db, { explain, evaluation, flows, templates, trails }: TemplatePreviewParts) {
  const newest = db.prepare<[number, number], NewestRow>(
    "SELECT id, name, template_inherited FROM trails WHERE flow_id = ? ORDER BY id DESC LIMIT ?",
  );

  /** @throws AppError 400 for a trail that the draft makes too large; Error for one whose record is damaged */
  function compare({ id, name }: NewestRow, { organizationId, flow, present, draft, at }: Place): TrailTurn {
    const trail = evaluation.get(id);
    const before = evaluation.computeBegun(trail, { template: present, at, grows: null }).compliance_status.status;
    const computed = evaluation.computeBegun(trail, { template: draft, at, grows: name });
    const after = computed.compliance_status.status;
    // Words are only needed where they are shown.
    const why = before === after ? NO_CAUSES : explain(organizationId, computed, { flow, trail: name });
    return { trail: name, before, after, ...why };
  }

  function addTrail(next: NextTrails, row: NewestRow, place: Place): void {
    try {
      const turn = compare(row, place);
      const { before, after } = turn;
      next[before === after ? "unchanged" : isPassing(after) ? "would_pass" : "would_fail"] += 1;
      if (before !== after) next.flips.push(turn);
    } catch (error) {
      next.unknown += 1;
      const reason = `It cannot be evaluated: ${error instanceof Error ? error.message : String(error)}`;
      next.unknown_trails.push({ trail: row.name, reason });
    }
  }

  function preview({ flowId, draft, at }: TemplateQuestion, bounds: TemplateBounds): TemplatePreview {
    const { organization_id: organizationId, name: flow, template_id } = flows.get(flowId);
    const place: Place = {
      organizationId,
      flow,
      present: templates.getParsed(template_id),
      draft: parseTemplateRow({ parsed_json: draft.parsedJson, content: draft.text }),
      at,
    };
    const next: NextTrails = { flow, ...NO_TRAILS, flips: [], unknown_trails: [] };
    let isStopped = false;
    for (const row of newest.iterate(flowId, bounds.searched)) {
      if (next.trails === bounds.trails) break;
      isStopped = bounds.isOver();
      if (isStopped) break;
      if (fromSqlBoolean(row.template_inherited)) {
        next.trails += 1;
        addTrail(next, row, place);
      } else next.own_template += 1;
    }
    const all = trails.count({ organizationId, flowId, flowTag: null, fingerprint: null });
    next.left = Math.max(0, all - next.trails - next.own_template);
    next.flips.sort((a, b) => Number(isPassing(a.after)) - Number(isPassing(b.after)));
    return {
      next_trails: next,
      stopped: isStopped ? { reason: "time", environments_left: 0, artifacts_left: 0 } : null,
    };
  }

  return {
    /** Evaluates at one moment. Takes long for large trails: not for the main thread. */
    preview: (question: TemplateQuestion, bounds: TemplateBounds): TemplatePreview =>
      db.transaction(() => preview(question, bounds))(),
  };
}

const NO_TRAILS = { trails: 0, own_template: 0, left: 0, unchanged: 0, would_fail: 0, would_pass: 0, unknown: 0 };

const NO_CAUSES: Causes = { causes: [], further_causes: 0 };

/** A template decides what is missing, never what fails: only COMPLIANT and INCOMPLETE turn into each other. */
const isPassing = (state: State): boolean => state === "COMPLIANT";
