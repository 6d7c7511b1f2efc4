/**
 * Renders the systemd units: a service restricted to what Assay needs, and the socket that starts it. systemd 247 and
 * newer support every setting (Debian 11, Ubuntu 22.04, RHEL 9).
 */
import { MALLOC_SETTINGS } from "../malloc.ts";
import { EXIT } from "../framework.ts";

type UnitSettings = {
  /** The absolute path of the executable. */
  executable: string;
  /**
   * The arguments after `assay serve --data DIRECTORY`; a word may use `${CREDENTIALS_DIRECTORY}`, see
   * `credentialPathOf`.
   */
  arguments: readonly string[];
  /** Files of which systemd passes a copy to the service; `name` is the name of the copy. */
  credentials: readonly { readonly name: string; readonly path: string }[];
  /** A group whose files the service can read; null for none. */
  group: string | null;
  /** Whether the service creates the Unix socket itself; then `group` must be its primary group to own the socket. */
  ownSocket: boolean;
  /** Directories besides the data directory that the service writes to. */
  writable: readonly string[];
  /** Whether the service itself binds a privileged port. */
  lowPort: boolean;
  /** Whether a socket unit passes the listening socket. */
  socket: boolean;
};

/** The data directory, created by StateDirectory=, which also works for a dynamic user. */
export const STATE_DIRECTORY = "/var/lib/assay";

/** Returns the path of a credential's copy, for the arguments of the service. */
export const credentialPathOf = (name: string): string => `\${CREDENTIALS_DIRECTORY}/${name}`;

/** Time until systemd kills the service. A server finishes requests in up to 10 seconds and then flushes its data. */
const STOP_TIMEOUT_S = 60;

/** Exit codes that a restart cannot fix. */
const PERMANENT_EXIT_CODES = [EXIT.usage, EXIT.newerDatabase, EXIT.dataInUse, EXIT.damaged];

export function renderServiceUnit(settings: UnitSettings): string {
  const { executable, credentials, group, ownSocket, writable, lowPort, socket } = settings;
  const words = [executable, "serve", "--data", STATE_DIRECTORY, ...settings.arguments].map(quoteUnitWord);
  return `${[
    section(
      "[Unit]",
      "Description=Assay, evidence and compliance server",
      "After=network-online.target",
      "Wants=network-online.target",
      socket && "Requires=assay.socket",
      socket && "After=assay.socket",
      "StartLimitIntervalSec=300",
      "StartLimitBurst=5",
    ),
    section(
      "[Service]",
      "Type=notify",
      "# The server reports readiness through systemd-notify, which is a separate process.",
      "NotifyAccess=all",
      "# Makes the C library return freed memory; by default it keeps 100 MB and more after large requests.",
      `Environment=${Object.entries(MALLOC_SETTINGS)
        .map(([name, value]) => `${name}=${value}`)
        .join(" ")}`,
      `ExecStart=${words.join(" ")}`,
      "ExecReload=/bin/kill -HUP $MAINPID",
      "Restart=on-failure",
      "RestartSec=2",
      "# Usage error, newer database, data directory in use, damage: a restart cannot fix these.",
      `RestartPreventExitStatus=${PERMANENT_EXIT_CODES.join(" ")}`,
      "# Longer than the server's own limit for requests in progress. No limit for the start, because a large database",
      "# may be upgraded before the server reports readiness.",
      `TimeoutStopSec=${STOP_TIMEOUT_S}`,
      "TimeoutStartSec=infinity",
      ...credentials.map(({ name, path }) => `LoadCredential=${name}:${quoteUnitPath(path)}`),
    ),
    section(
      "# A dynamic user, which exists only while the service runs; its files stay in the state directory.",
      "DynamicUser=yes",
      "StateDirectory=assay",
      "StateDirectoryMode=0700",
      "RuntimeDirectory=assay",
      "RuntimeDirectoryMode=0755",
      "UMask=0077",
      "LimitNOFILE=65536",
      group !== null && `${ownSocket ? "Group" : "SupplementaryGroups"}=${group}`,
      writable.length > 0 && `ReadWritePaths=${writable.map(quoteUnitPath).join(" ")}`,
    ),
    hardeningSection(lowPort ? "CAP_NET_BIND_SERVICE" : ""),
    section("[Install]", "WantedBy=multi-user.target", socket && "Also=assay.socket"),
  ].join("\n\n")}\n`;
}

const hardeningSection = (capability: string): string =>
  section(
    "# No MemoryDenyWriteExecute=: V8 compiles to machine code at run time.",
    "# No NoExecPaths=: SQLite is loaded from a file in a private temporary directory and deleted at once.",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "NoNewPrivileges=yes",
    `CapabilityBoundingSet=${capability}`,
    capability !== "" && `AmbientCapabilities=${capability}`,
    // In its own user namespace a process has no capability over ports of the host.
    capability === "" && "PrivateUsers=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RemoveIPC=yes",
    "LockPersonality=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "ProcSubset=pid",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources",
    // Evaluations lower the priority of their own threads; raising it needs a capability.
    "SystemCallFilter=setpriority",
    "SystemCallErrorNumber=EPERM",
  );

const section = (...lines: (string | false)[]): string => lines.filter((line) => line !== false).join("\n");

/**
 * Renders the socket unit. `address` has the form of ListenStream=: ADDRESS:PORT or an absolute path. Only `group` may
 * open such a path; with null every user may, as with a port.
 */
export function renderSocketUnit(address: string, group: string | null): string {
  const access = address.startsWith("/")
    ? `${group === null ? "SocketMode=0666" : `SocketMode=0660\nSocketGroup=${group}`}\n`
    : "";
  return `[Unit]
Description=Socket of Assay, evidence and compliance server

[Socket]
# Connections wait here while the service restarts.
ListenStream=${address.replaceAll("%", "%%")}
Backlog=4096
${access}
[Install]
WantedBy=sockets.target
`;
}

/** Quotes a word of a systemd command line; systemd expands only the credentials directory in it. */
function quoteUnitWord(word: string): string {
  const text = word
    .replaceAll("\\", "\\\\")
    .replaceAll("%", "%%")
    .replace(/\$(?!\{CREDENTIALS_DIRECTORY\})/g, "$$$$");
  return /^[A-Za-z0-9_@%+=:,./${}\\-]+$/.test(text) && !text.includes("\\") ? text : `"${text.replaceAll('"', '\\"')}"`;
}

/** Quotes a path in a setting that takes a list of paths. */
const quoteUnitPath = (path: string): string =>
  path.replaceAll("%", "%%").replaceAll("\\", "\\\\").replaceAll(" ", "\\x20");
