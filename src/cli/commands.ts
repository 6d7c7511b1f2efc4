/** The commands of the program, in the order of its help. */
import { apply } from "./apply.ts";
import { dev } from "./dev.ts";
import { explain } from "./explain.ts";
import type { Command } from "./frame.ts";
import { init } from "./init.ts";
import { keyCreate, keyList, keyRevoke } from "./key.ts";
import { openapi } from "./openapi.ts";
import { serve } from "./serve.ts";
import { version } from "./version.ts";
import { webhookDisable, webhookEnable, webhookList, webhookRotate } from "./webhook.ts";

export const COMMANDS: readonly Command[] = [serve, dev, init, apply, keyCreate, keyList, keyRevoke, webhookEnable, webhookList, webhookRotate, webhookDisable, explain, openapi, version];
