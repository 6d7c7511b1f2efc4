/** The color of each compliance state. */
import { COLOR } from "./canvas.ts";
import type { Color } from "./canvas.ts";

const STATE_COLORS: Record<string, Color> = {
  COMPLIANT: COLOR.good,
  "NON-COMPLIANT": COLOR.bad,
  INCOMPLETE: COLOR.open,
  MISSING: COLOR.open,
};

export const colorOfState = (state: string): Color => STATE_COLORS[state] ?? COLOR.unknown;

/** A state as the badge of a title. */
export const stateBadge = (state: string): { word: string; color: Color } => ({
  word: state,
  color: colorOfState(state),
});
