/**
 * The text of the systemd units: a service that may do what Assay needs and nothing else, and the socket that starts
 * it. systemd 247 or newer knows every line of them (Debian 11, Ubuntu 22.04, RHEL 9).
 */
import { MALLOC_SETTINGS } from "../malloc.ts";
import { EXIT } from "../framework.ts";

export type UnitSettings = {
  /** The absolute path of the executable. */
  executable: string;
  /** What follows `assay serve --data DIRECTORY`. A word may use `${CREDENTIALS_DIRECTORY}`, see `credentialPath`. */
  arguments: readonly string[];
  /** Files that systemd hands over as the service's own copies, by the name of the copy. */
  credentials: readonly { readonly name: string; readonly path: string }[];
  /** A group whose files the service may read; null for none. */
  group: string | null;
  /**
   * Whether the group may open the Unix socket that the service makes itself: then it must be the service's first one.
   */
  ownSocket: boolean;
  /** Directories beside the data directory that are written. */
  writable: readonly string[];
  /** Whether it binds itself to a port that only root may have. */
  lowPort: boolean;
  /** Whether a socket unit hands over the listener. */
  socket: boolean;
};

/** The data directory: what StateDirectory= makes, also for a user that exists only while the service runs. */
export const STATE_DIRECTORY = "/var/lib/assay";

/** Where the copy of a credential is found, in the arguments of the service. */
export const credentialPath = (name: string): string => `\${CREDENTIALS_DIRECTORY}/${name}`;

/**
 * A server takes up to 10 seconds for what is running and then flushes what it owes; systemd kills what is still there
 * after this, in seconds.
 */
const STOP_SECONDS = 60;

/** Repeating a start does not help against these. */
const FINAL_EXITS = [EXIT.usage, EXIT.newerDatabase, EXIT.dataInUse];

export function serviceUnit(settings: UnitSettings): string {
  const { executable, credentials, group, ownSocket, writable, lowPort, socket } = settings;
  const words = [executable, "serve", "--data", STATE_DIRECTORY, ...settings.arguments].map(unitWord);
  const capability = lowPort ? "CAP_NET_BIND_SERVICE" : "";
  const section = (...lines: (string | false)[]): string => lines.filter((line) => line !== false).join("\n");
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
      "# The server tells that it is ready through systemd-notify, a process of its own.",
      "NotifyAccess=all",
      "# The C library gives freed memory back; without these it keeps a hundred megabytes after large requests.",
      `Environment=${Object.entries(MALLOC_SETTINGS)
        .map(([name, value]) => `${name}=${value}`)
        .join(" ")}`,
      `ExecStart=${words.join(" ")}`,
      "ExecReload=/bin/kill -HUP $MAINPID",
      "Restart=on-failure",
      "RestartSec=2",
      "# Wrong usage, a newer database, a data directory in use: no restart mends these.",
      `RestartPreventExitStatus=${FINAL_EXITS.join(" ")}`,
      "# Above what the server itself allows for running requests. An upgrade of a large database happens before the start is told.",
      `TimeoutStopSec=${STOP_SECONDS}`,
      "TimeoutStartSec=infinity",
      ...credentials.map(({ name, path }) => `LoadCredential=${name}:${pathText(path)}`),
    ),
    section(
      "# A user that exists only while the service runs; its files stay in the state directory.",
      "DynamicUser=yes",
      "StateDirectory=assay",
      "StateDirectoryMode=0700",
      "RuntimeDirectory=assay",
      "RuntimeDirectoryMode=0755",
      "UMask=0077",
      "LimitNOFILE=65536",
      group !== null && `${ownSocket ? "Group" : "SupplementaryGroups"}=${group}`,
      writable.length > 0 && `ReadWritePaths=${writable.map(pathText).join(" ")}`,
    ),
    section(
      "# No MemoryDenyWriteExecute=: V8, which runs the program, compiles to machine code while it runs.",
      "# No NoExecPaths=: SQLite is loaded from a file in a private temporary directory, which is gone at once.",
      "ProtectSystem=strict",
      "ProtectHome=yes",
      "PrivateTmp=yes",
      "PrivateDevices=yes",
      "NoNewPrivileges=yes",
      `CapabilityBoundingSet=${capability}`,
      capability !== "" && `AmbientCapabilities=${capability}`,
      // A process in a user namespace of its own holds no capability over ports of the host.
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
      "SystemCallErrorNumber=EPERM",
    ),
    section("[Install]", "WantedBy=multi-user.target", socket && "Also=assay.socket"),
  ].join("\n\n")}\n`;
}

/**
 * `address` as ListenStream= takes it: ADDRESS:PORT or an absolute path, which then only `group` may open; null:
 * everybody, as with a port.
 */
export function socketUnit(address: string, group: string | null): string {
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

/**
 * A word of a command line of systemd: nothing in it is expanded but the directory of the credentials, and blanks and
 * quotes stay what they are.
 */
function unitWord(word: string): string {
  const text = word
    .replaceAll("\\", "\\\\")
    .replaceAll("%", "%%")
    .replace(/\$(?!\{CREDENTIALS_DIRECTORY\})/g, "$$$$");
  return /^[A-Za-z0-9_@%+=:,./${}\\-]+$/.test(text) && !text.includes("\\") ? text : `"${text.replaceAll('"', '\\"')}"`;
}

/** A path in a setting that takes a list of them. */
const pathText = (path: string): string => path.replaceAll("%", "%%").replaceAll("\\", "\\\\").replaceAll(" ", "\\x20");
