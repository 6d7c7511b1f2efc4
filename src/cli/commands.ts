/** The commands of the program, in the order of its help. */
import { actionSecret } from "./action.ts";
import { apply } from "./apply.ts";
import { backup } from "./backup.ts";
import { completion } from "./completion.ts";
import { configExplain, configShow } from "./config.ts";
import { deliveriesList, deliveriesPurge, deliveriesRetry, deliveriesShow } from "./deliveries.ts";
import { dev } from "./dev.ts";
import { docker } from "./docker.ts";
import { doctor } from "./doctor.ts";
import { explain } from "./explain.ts";
import type { Command } from "./frame.ts";
import { health } from "./health.ts";
import { init } from "./init.ts";
import { keyCreate, keyList, keyRevoke } from "./key.ts";
import { licenses, sbom } from "./licenses.ts";
import { man } from "./man.ts";
import { memberAdd, memberList, memberRemove, memberSetRole } from "./member.ts";
import { openapi } from "./openapi.ts";
import { userPasswd } from "./passwd.ts";
import { restore } from "./restore.ts";
import { retentionDeleted, retentionPlan, retentionRun } from "./retention-run.ts";
import { retentionHold, retentionList, retentionRelease, retentionSet, retentionUnset } from "./retention.ts";
import { serve } from "./serve.ts";
import { serviceAccountCreate, serviceAccountDelete, serviceAccountList } from "./service-account.ts";
import { sessionList, sessionRevoke } from "./session.ts";
import { systemd } from "./systemd.ts";
import { userCreate, userDisable, userEnable, userList, userSet, userShow } from "./user.ts";
import { vacuum } from "./vacuum.ts";
import { vaultCopy, vaultMigrate, vaultStatus } from "./vault.ts";
import { verify } from "./verify.ts";
import { version } from "./version.ts";
import { webhookDisable, webhookEnable, webhookList, webhookRotate } from "./webhook.ts";

export const COMMANDS: readonly Command[] = [
  serve, dev, init, apply, userCreate, userList, userShow, userSet, userPasswd, userDisable, userEnable, sessionList, sessionRevoke,
  memberAdd, memberSetRole, memberRemove, memberList, serviceAccountCreate, serviceAccountList, serviceAccountDelete,
  keyCreate, keyList, keyRevoke, webhookEnable, webhookList, webhookRotate,
  webhookDisable, deliveriesList, deliveriesShow, deliveriesRetry, deliveriesPurge, actionSecret, retentionSet, retentionUnset,
  retentionList, retentionHold, retentionRelease, retentionPlan, retentionRun, retentionDeleted, vacuum, explain, vaultStatus, vaultCopy,
  vaultMigrate, verify, doctor, backup, restore, configExplain, configShow, openapi, health, systemd, docker, completion(() => COMMANDS),
  man(() => COMMANDS), licenses, sbom, version,
];
