import type { Role } from "../domain/access.ts";

/** Grants the members of `group` the role `role` in `organization`. */
export type GroupRole = { group: string; organization: string; role: Role };

/** An address to listen on. `host` is an IPv4 address, an IPv6 address without brackets, or a host name. */
export type Listen = { host: string; port: number };

/** A Unix socket to listen on: its absolute path. */
export type ListenPath = { path: string };

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal";
