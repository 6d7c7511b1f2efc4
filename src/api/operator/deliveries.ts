/** Messages of all organizations: sending them again, and deleting dead ones. */
import { Type } from "typebox";
import { badRequest, notFound } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { Closed, Message, named } from "../../http/schema.ts";
import type { DeliveryRow } from "../../store/notifications/delivery-log.ts";
import { changesOf } from "../changes.ts";
import type { Changes } from "../changes.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { OPERATOR } from "./operator.ts";

const MAX_MESSAGES = 1000;

const DeliveryIds = named(
  "DeliveryIds",
  Closed({ ids: Type.Array(Type.String({ maxLength: 100 }), { minItems: 1, maxItems: MAX_MESSAGES }) }),
);
const ANSWERS = {
  200: { description: "The messages", schema: DeliveryIds },
  404: { description: "No such message", schema: Message },
} as const;
const EXAMPLE = { body: { ids: ["019a2b3c-4d5e-7f60-8a9b-0c1d2e3f"] } };

/** Changes all of these messages or, if one cannot be changed, none. @throws AppError 400, 404 */
function changeEach(
  context: OperationContext,
  ids: readonly string[],
  { change, states }: { change(changes: Changes, row: DeliveryRow): boolean; states: string },
) {
  const { store } = context;
  const changes = changesOf(context);
  const names = [...new Set(ids)].map((id) => {
    const row = store.deliveryLog.find(id);
    if (!row) throw notFound(`there is no message ${JSON.stringify(id.slice(0, 100))}; see assay deliveries list`);
    if (!change(changes, row))
      throw badRequest(`${row.public_id} is ${row.state}: only ${states}; nothing was changed`);
    return row.public_id;
  });
  return { status: 200 as const, body: { ids: names }, unaudited: true as const };
}

export const retryDeliveries = operation({
  ...OPERATOR,
  id: "retry_deliveries",
  method: "POST",
  path: "/operator/deliveries/retry",
  summary: "Retry dead messages, or waiting ones at once",
  description: "All of them or none. Each gets the full number of attempts again, and keeps its place in its queue.",
  audit: "delivery.retried",
  params: Closed({}),
  query: NoQuery,
  body: json(DeliveryIds),
  responses: ANSWERS,
  example: EXAMPLE,
  handle: (context, { body }) =>
    changeEach(context, body.ids, {
      change: (changes, row) => changes.retryDelivery(row),
      states: "dead or waiting messages can be retried",
    }),
});

export const purgeDeliveries = operation({
  ...OPERATOR,
  id: "purge_deliveries",
  method: "POST",
  path: "/operator/deliveries/purge",
  summary: "Delete dead messages",
  description: "All of them or none. This cannot be undone.",
  audit: "delivery.purged",
  params: Closed({}),
  query: NoQuery,
  body: json(DeliveryIds),
  responses: ANSWERS,
  example: EXAMPLE,
  handle: (context, { body }) =>
    changeEach(context, body.ids, {
      change: (changes, row) => changes.purgeDelivery(row),
      states: "dead messages can be purged",
    }),
});
