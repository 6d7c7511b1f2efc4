/**
 * Trails with their histories as JSON text, in steps: a trail may have ten thousand events, and a list has many trails.
 * A caller lets the server do other work between two steps.
 */
import { mergeByTime } from "../domain/time.ts";
import { badRequest } from "../errors.ts";
import { jsonPieces } from "../json/text.ts";
import type { TrailFilter, TrailRow } from "../store/flows/trails.ts";
import { listAllowance, singleAllowance, spendCharacters, spendText } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { ResponseFullError, reasonOf } from "./placeholders.ts";
import { createTrailPresenter, presentTrailPlaceholder } from "./present-trail.ts";
import type { PresenterContext } from "./presenter-context.ts";

type Steps<T> = Generator<undefined, T>;

/** Trails that are read at one moment: the longest page. */
const BATCH_SIZE = 100;
/** Trails that one query finds for a list without pages. */
const WINDOW_SIZE = 5000;
/** Events that are read at once. */
const SLICE_EVENTS = 200;
/** Characters of one step: 1 to 2 ms of work. */
const STEP_CHARS = 256 * 1024;

/** Trails that were read at one moment. `upTo`: the id of the newest event at that moment. */
type Batch = { presenter: ReturnType<typeof createTrailPresenter>; rows: TrailRow[]; upTo: number };

/** Counts what was written since the last step. */
class Pace {
  #written = 0;
  /** Adds characters that were written. @returns whether the step has written its share and ends here */
  ends(characters: number): boolean {
    this.#written += characters;
    if (this.#written < STEP_CHARS) return false;
    this.#written = 0;
    return true;
  }
}

/**
 * A trail with its whole history, as it was at one moment. @returns the JSON text, in pieces
 * @throws AppError 400 when the history exceeds `allowance`; Error for a damaged record
 */
export function* presentTrailText(
  context: PresenterContext,
  id: number,
  allowance = singleAllowance(),
): Steps<string[]> {
  const batch = readBatch(context, [id]);
  const [row] = batch.rows as [TrailRow];
  try {
    return yield* presentItem(context, row, { ...batch, allowance, pace: new Pace() });
  } catch (error) {
    if (!(error instanceof ResponseFullError)) throw error;
    throw badRequest(
      "The history of this trail is too long for one answer: read it with `events=false`, and its events in pages",
      error,
    );
  }
}

/**
 * One page of trails, newest first, as it was at one moment. A damaged trail, or one that the response has no room for,
 * becomes a placeholder with the reason in its description. @returns the JSON text of a list, in pieces
 */
export function* presentTrailPage(context: PresenterContext, ids: readonly number[]): Steps<string[]> {
  return toList(
    yield* presentBatch(context, readBatch(context, ids), { allowance: listAllowance(), pace: new Pace() }),
  );
}

/**
 * All trails of a filter, as `presentTrailPage`, but a hundred at a time: each as it was when its hundred was read. One
 * that by then has another state than the filter asks for is left out.
 */
export function* presentAllTrails(context: PresenterContext, filter: TrailFilter): Steps<string[]> {
  const { trails } = context.store;
  const progress = { allowance: listAllowance(), pace: new Pace() };
  const items: string[][] = [];
  let before: number | null = null;
  for (;;) {
    const ids: number[] = trails.listIds({ ...filter, before }, { limit: WINDOW_SIZE, offset: 0 });
    for (let start = 0; start < ids.length; start += BATCH_SIZE) {
      const batch = readBatch(context, ids.slice(start, start + BATCH_SIZE));
      batch.rows = batch.rows.filter(({ state }) => !filter.state || state === filter.state);
      for (const item of yield* presentBatch(context, batch, progress)) items.push(item);
    }
    if (ids.length < WINDOW_SIZE) return toList(items);
    before = ids.at(-1) as number;
  }
}

function readBatch(context: PresenterContext, ids: readonly number[]): Batch {
  const { trails } = context.store;
  const rows = ids.map((id) => trails.getListed(id));
  return { rows, presenter: createTrailPresenter(context, rows), upTo: trails.findLastEventId() };
}

type Progress = { allowance: Allowance; pace: Pace };

function* presentBatch(context: PresenterContext, batch: Batch, progress: Progress): Steps<string[][]> {
  const items: string[][] = [];
  for (const row of batch.rows) {
    try {
      items.push(yield* presentItem(context, row, { ...batch, ...progress }));
    } catch (error) {
      items.push([JSON.stringify(presentTrailPlaceholder(context, row, reasonOf(error)))]);
    }
  }
  return items;
}

/** The JSON text of one trail, in pieces. @throws ResponseFullError; Error for a damaged record */
function* presentItem(
  { store }: PresenterContext,
  row: TrailRow,
  { presenter, upTo, allowance, pace }: Omit<Batch, "rows"> & Progress,
): Steps<string[]> {
  const facts = presenter.outline(row, allowance);
  spendText(allowance, facts.template.content);
  const outline = jsonPieces(facts);
  if (pace.ends(countCharacters(outline))) yield;
  const stored: ReturnType<typeof presenter.eventTexts> = [];
  for (let after = 0; ; ) {
    const slice = store.trails.listEventTexts(row.id, { after, upTo, limit: SLICE_EVENTS });
    const texts = presenter.eventTexts(row, slice);
    for (const event of texts) stored.push(event);
    const characters = texts.reduce((sum, { text }) => sum + text.length, 0);
    spendCharacters(allowance, characters);
    if (pace.ends(characters)) yield;
    if (slice.length < SLICE_EVENTS) break;
    after = (slice.at(-1) as { id: number }).id;
  }
  const moved = presenter.moveTexts(row);
  const events = (moved.length === 0 ? stored : mergeByTime(stored, moved)).map(({ text }) => text);
  const last = outline.pop() as string;
  return [...outline, `${last.slice(0, -1)},"events":[${events.join(",")}]}`];
}

const countCharacters = (pieces: readonly string[]): number => pieces.reduce((sum, { length }) => sum + length, 0);

/** The items of a list, in one JSON text. */
function toList(items: readonly string[][]): string[] {
  const pieces = ["["];
  for (const [n, item] of items.entries()) {
    if (n > 0) pieces.push(",");
    for (const piece of item) pieces.push(piece);
  }
  pieces.push("]");
  return pieces;
}
