/** Charts: SVG with geometry in attributes and colours by class. Each says its finding as a sentence. */
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { formatNumber } from "./state.ts";

/** Artifacts by verdict. */
type Verdicts = { compliant: number; failing: number; unknown: number };

/** `9 running, 1 failing`, with a bar of the shares. */
export function verdictBar({ compliant, failing, unknown }: Verdicts): Html {
  const total = compliant + failing + unknown;
  const text = `${formatNumber(total)} running${failing > 0 ? `, ${formatNumber(failing)} failing` : ""}`;
  const parts = [
    { look: "c-ok", amount: compliant, words: "compliant" },
    { look: "c-bad", amount: failing, words: "non-compliant" },
    { look: "c-none", amount: unknown, words: "of unknown state" },
  ].filter(({ amount }) => amount > 0);
  const label = parts.map(({ amount, words }) => `${formatNumber(amount)} ${words}`).join(", ") || "Nothing runs";
  let before = 0;
  const bars = parts.map(({ look, amount }) => {
    const x = (before / total) * 100;
    before += amount;
    return html`<rect class="${look}" x="${x.toFixed(2)}%" width="${((amount / total) * 100).toFixed(2)}%"
height="6"/>`;
  });
  const track = total === 0 && html`<rect class="c-track" width="100%" height="6"/>`;
  return html`<div class="seg-cell"><span class="sub num">${text}</span><svg class="seg" role="img"
aria-label="${label}">${track}${bars}</svg></div>`;
}

const BARS_HEIGHT = 96;

/**
 * Bars side by side, one for each day.
 * @param days `label` names a day in its title @param finding the sentence for screen readers
 */
export function dayBars(days: readonly { label: string; amount: number }[], finding: string): Html {
  const most = days.reduce((max, { amount }) => Math.max(max, amount), 1);
  const step = 100 / Math.max(1, days.length);
  const bars = days.map(({ label, amount }, at) => {
    const height = Math.max(amount === 0 ? 2 : 4, Math.round((amount / most) * BARS_HEIGHT));
    const place = html`x="${(at * step).toFixed(2)}%" width="${(step * 0.72).toFixed(2)}%"`;
    return html`<rect class="${amount === 0 ? "c-track" : "c-bar"}" ${place} y="${BARS_HEIGHT - height}"
height="${height}"
rx="2"><title>${label}: ${amount}</title></rect>`;
  });
  return html`<svg class="chart" height="${BARS_HEIGHT}" role="img" aria-label="${finding}">${bars}</svg><div
class="axis"
aria-hidden="true"><span>${days[0]?.label}</span><span>${days.at(-1)?.label}</span></div>`;
}

/** Values as points on one scale from 0 to the largest. @param finding the sentence for screen readers */
export function pointScale(values: readonly number[], { finding, end }: { finding: string; end: string }): Html {
  const most = values.reduce((max, value) => Math.max(max, value), 1);
  const points = values.map(
    (value) => html`<circle class="c-point" cx="${((value / most) * 98 + 1).toFixed(2)}%" cy="12" r="4"/>`,
  );
  return html`<svg class="chart" height="24" role="img" aria-label="${finding}"><line class="c-grid" x1="0" x2="100%"
y1="12" y2="12"/>${points}</svg><div class="axis" aria-hidden="true"><span>0</span><span>${end}</span></div>`;
}
