/**
 * Trails with their histories as JSON text, made while the answer is written: a trail may have ten thousand events, and
 * a list has many trails.
 */
import { iterateByTime } from "../domain/time.ts";
import { badRequest } from "../errors.ts";
import { JsonText, jsonPieces } from "../json/text.ts";
import type { TrailFilter, TrailRow } from "../store/flows/trails.ts";
import { eventTextReader, listAllowance, singleAllowance, spendCharacters, spendText } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { ResponseFullError, reasonOf, rethrowLarge } from "./placeholders.ts";
import { createTrailPresenter, presentTrailPlaceholder } from "./present-trail.ts";
import type { TrailOutline } from "./present-trail.ts";
import type { PresenterContext } from "./presenter-context.ts";

/** Trails that are read at a time: the longest page. */
const BATCH_SIZE = 100;
/** Trails that one query finds for a list without pages. */
const WINDOW_SIZE = 5000;
/** Events that are read at once. */
const SLICE_EVENTS = 200;
/** Characters of one trail of a list, which is in memory as a whole: a damaged event makes all of it a placeholder. */
const MAX_LISTED_CHARS = 48 * 1024 ** 2;

type Texts = Generator<string, void, undefined>;
type Presenter = ReturnType<typeof createTrailPresenter>;
/** Changes a trail, without its history, before it is written. */
type EditOutline = (outline: TrailOutline) => Record<string, unknown>;

/**
 * A trail with its whole history: the pieces of its JSON text.
 * @throws AppError 400 when the history exceeds `allowance`; LargeAnswerError; Error for a damaged record
 */
export function* writeTrail(context: PresenterContext, row: TrailRow, allowance = singleAllowance(context)): Texts {
  try {
    yield* writeItem(context, row, { presenter: createTrailPresenter(context, [row]), allowance });
  } catch (error) {
    if (!(error instanceof ResponseFullError)) throw error;
    throw badRequest(
      "The history of this trail is too long for one answer: read it with `events=false`, and its events in pages",
      error,
    );
  }
}

/**
 * A trail with its whole history, as `edit` changes the rest of it: the pieces of its JSON text.
 * @throws ResponseFullError, LargeAnswerError; Error for a damaged record
 */
export const writeEditedTrail = (
  context: PresenterContext,
  row: TrailRow,
  { allowance, edit }: { allowance: Allowance; edit: EditOutline },
): Texts => writeItem(context, row, { presenter: createTrailPresenter(context, [row]), allowance, edit });

/**
 * The items of a list of trails, on request with their causes. A damaged trail, or one that the response has no room
 * for, becomes a placeholder with the reason in its description.
 * @throws LargeAnswerError
 */
export function* writeTrails(
  context: PresenterContext,
  ids: Iterable<number>,
  { withCauses = false }: { withCauses?: boolean } = {},
): Generator<JsonText> {
  const allowance = listAllowance(context);
  let batch: number[] = [];
  for (const id of ids) {
    if (batch.push(id) < BATCH_SIZE) continue;
    yield* writeBatch(context, batch, { allowance, withCauses });
    batch = [];
  }
  yield* writeBatch(context, batch, { allowance, withCauses });
}

/** The ids of all trails of a filter, newest first. */
export function* listAllIds({ store }: PresenterContext, filter: TrailFilter): Generator<number> {
  let before: number | null = null;
  for (;;) {
    const ids: number[] = store.trails.listIds({ ...filter, before }, { limit: WINDOW_SIZE, offset: 0 });
    yield* ids;
    if (ids.length < WINDOW_SIZE) return;
    before = ids.at(-1) as number;
  }
}

function* writeBatch(
  context: PresenterContext,
  ids: readonly number[],
  { allowance, withCauses }: { allowance: Allowance; withCauses: boolean },
): Generator<JsonText> {
  const rows = ids.map((id) => context.store.trails.getListed(id));
  const presenter = createTrailPresenter(context, rows);
  for (const row of rows) {
    const edit: EditOutline = (outline) => ({ ...outline, ...causesOf(context, row, outline) });
    yield new JsonText(listedText(context, row, { presenter, allowance, ...(withCauses ? { edit } : {}) }));
  }
}

const causesOf = ({ store, organization }: PresenterContext, row: TrailRow, { flow }: TrailOutline) =>
  store.verdictCauses.explainTrail(organization.id, { ...row, flow: flow.name });

function listedText(
  context: PresenterContext,
  row: TrailRow,
  shared: { presenter: Presenter; allowance: Allowance; edit?: EditOutline },
): string {
  try {
    const pieces: string[] = [];
    let characters = 0;
    for (const piece of writeItem(context, row, shared)) {
      characters += piece.length;
      if (characters > MAX_LISTED_CHARS) throw new ResponseFullError();
      pieces.push(piece);
    }
    return pieces.join("");
  } catch (error) {
    rethrowLarge(error);
    return JSON.stringify(presentTrailPlaceholder(context, row, reasonOf(error)));
  }
}

/** The pieces of one trail. @throws ResponseFullError, LargeAnswerError; Error for a damaged record */
function* writeItem(
  context: PresenterContext,
  row: TrailRow,
  { presenter, allowance, edit }: { presenter: Presenter; allowance: Allowance; edit?: EditOutline },
): Texts {
  const facts = presenter.outline(row, allowance);
  spendText(allowance, facts.template.content);
  const outline = [...jsonPieces(edit ? edit(facts) : facts)];
  const last = outline.pop() as string;
  yield* outline;
  yield `${last.slice(0, -1)},"events":[`;
  // The page of a trail reads the history in pages, and no other shows it.
  if (context.answerBounds?.isForPage) return yield "]}";
  let isFirst = true;
  for (const event of iterateByTime(
    storedEvents(context, row, { presenter, allowance }),
    presenter.moveTexts(row, allowance),
  )) {
    if (!isFirst) yield ",";
    yield event.text;
    isFirst = false;
  }
  yield "]}";
}

function* storedEvents(
  context: PresenterContext,
  row: TrailRow,
  { presenter, allowance }: { presenter: Presenter; allowance: Allowance },
): ReturnType<Presenter["eventTexts"]> {
  const { store } = context;
  const readLarge = eventTextReader(context, allowance);
  for (let after = 0, count = SLICE_EVENTS; count === SLICE_EVENTS; ) {
    count = 0;
    const slice = store.trails.listEventTexts(row.id, { after, limit: SLICE_EVENTS }, readLarge);
    for (const event of presenter.eventTexts(row, slice)) {
      count += 1;
      after = event.id;
      spendCharacters(allowance, event.text.length);
      yield event;
    }
  }
}
