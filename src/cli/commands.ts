/** The commands of the program, in the order of its help. */
import { acceptLoss } from "./commands/accept-loss.ts";
import { actionSecret } from "./commands/action.ts";
import { apply } from "./commands/apply.ts";
import { backup } from "./commands/backup.ts";
import { call } from "./commands/call.ts";
import { completion } from "./commands/completion.ts";
import { configExplain, configShow } from "./commands/config.ts";
import { deliveriesList, deliveriesPurge, deliveriesRetry, deliveriesShow } from "./commands/deliveries.ts";
import { dev } from "./commands/dev.ts";
import { docker } from "./commands/docker.ts";
import { doctor } from "./commands/doctor.ts";
import { explain } from "./commands/explain.ts";
import type { Command } from "./framework.ts";
import { health } from "./commands/health.ts";
import { init } from "./commands/init.ts";
import { keyCreate, keyList, keyRevoke } from "./commands/key.ts";
import { licenses, sbom } from "./commands/licenses.ts";
import { man } from "./commands/man.ts";
import { memberAdd, memberList, memberRemove, memberSetRole } from "./commands/member.ts";
import { openapi } from "./commands/openapi.ts";
import { userPasswd } from "./commands/passwd.ts";
import { policyCheck, policyPreview } from "./commands/checks/policy.ts";
import { regoCheck, regoEval, regoTest } from "./commands/checks/rego.ts";
import { restore } from "./commands/restore.ts";
import { retentionDeleted, retentionPlan, retentionRun } from "./commands/retention-run.ts";
import { retentionHold, retentionList, retentionRelease, retentionSet, retentionUnset } from "./commands/retention.ts";
import { serve } from "./commands/serve.ts";
import { serviceAccountCreate, serviceAccountDelete, serviceAccountList } from "./service-account.ts";
import { sessionList, sessionRevoke } from "./commands/session.ts";
import { templateCheck } from "./commands/checks/template.ts";
import { systemd } from "./commands/systemd.ts";
import { typeTry } from "./commands/checks/type.ts";
import { userCreate, userDisable, userEnable, userList, userSet, userShow } from "./commands/user.ts";
import { vacuum } from "./commands/vacuum.ts";
import { vaultCopy, vaultMigrate, vaultStatus } from "./commands/vault.ts";
import { verify } from "./commands/verify.ts";
import { version } from "./commands/version.ts";
import { webhookDisable, webhookEnable, webhookList, webhookRotate } from "./commands/webhook.ts";

export const COMMANDS: readonly Command[] = [
  serve,
  dev,
  init,
  apply,
  userCreate,
  userList,
  userShow,
  userSet,
  userPasswd,
  userDisable,
  userEnable,
  sessionList,
  sessionRevoke,
  memberAdd,
  memberSetRole,
  memberRemove,
  memberList,
  serviceAccountCreate,
  serviceAccountList,
  serviceAccountDelete,
  keyCreate,
  keyList,
  keyRevoke,
  webhookEnable,
  webhookList,
  webhookRotate,
  webhookDisable,
  deliveriesList,
  deliveriesShow,
  deliveriesRetry,
  deliveriesPurge,
  actionSecret,
  retentionSet,
  retentionUnset,
  retentionList,
  retentionHold,
  retentionRelease,
  retentionPlan,
  retentionRun,
  retentionDeleted,
  vacuum,
  call,
  explain,
  policyCheck,
  policyPreview,
  templateCheck,
  typeTry,
  regoCheck,
  regoEval,
  regoTest,
  vaultStatus,
  vaultCopy,
  vaultMigrate,
  verify,
  doctor,
  backup,
  restore,
  acceptLoss,
  configExplain,
  configShow,
  openapi,
  health,
  systemd,
  docker,
  completion(() => COMMANDS),
  man(() => COMMANDS),
  licenses,
  sbom,
  version,
];
