/** A stand-in for systemd's notification socket. It needs python3, because Node has no Unix datagram sockets. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

/** Prints each datagram as a line, and closes the descriptors in it, for which systemd-notify waits. */
const PROGRAM = `
import array, os, socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print("bound", flush=True)
while True:
    text, control, _, _ = receiver.recvmsg(65536, 1024)
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            for fd in array.array("i", data): os.close(fd)
    if not text.startswith(b"BARRIER=1"): print(text.decode().replace("\\n", "|"), flush=True)
`;

/** Whether the programs that send and receive notifications are installed. */
export const canReceive = existsSync("/usr/bin/systemd-notify") && spawnSync("python3", ["-c", ""]).status === 0;

/** Listens at `path`. */
export async function startReceiver(path: string) {
  const receiver = spawn("python3", ["-c", PROGRAM, path], { stdio: ["ignore", "pipe", "inherit"] });
  let received = "";
  let wake = (): void => undefined;
  receiver.stdout.on("data", (bytes: Buffer) => {
    received += bytes.toString();
    wake();
  });
  const lines = async (count: number): Promise<void> => {
    while (received.split("\n").length <= count) await new Promise<void>((resolve) => (wake = resolve));
  };
  await lines(1);
  return {
    /** Resolves once so many messages have arrived. */
    heard: (count: number): Promise<void> => lines(count + 1),
    /**
     * All messages, each with its assignments sorted, because systemd-notify reorders them. The time of a reload is
     * masked.
     */
    messages: (): string[][] =>
      received
        .trimEnd()
        .split("\n")
        .slice(1)
        .map((line) =>
          line
            .replace(/USEC=\d+/, "USEC=n")
            .split("|")
            .filter((word) => word !== "")
            .sort(),
        ),
    stop: (): void => void receiver.kill(),
  };
}
