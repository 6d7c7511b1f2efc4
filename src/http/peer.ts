/** Who is at the other end of a connection. */
import type { IncomingMessage } from "node:http";

/** The client's address: what limits by address count, and what the log names; `unknown` for one that is gone already. */
export const clientAddress = ({ socket }: IncomingMessage): string => socket.remoteAddress ?? "unknown";

/** Whether what is answered travels encrypted as far as anybody knows. */
export const isSecure = ({ socket }: IncomingMessage): boolean => "encrypted" in socket && socket.encrypted === true;

export const peerAt = (request: IncomingMessage): { secure: boolean; origin: string | null } => ({ secure: isSecure(request), origin: null });
