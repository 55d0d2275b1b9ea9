/** Lists the ports on which programs listen, and takes screenshots of the window. */
import { Failure } from "../common/failure";
import { observe, type ObservationBody } from "../protocol";
import { commandOf } from "../terminal/processes";
import { listeningPorts, socketOwners } from "./listening_ports";
import { askSession } from "./session_socket";

interface PortItem {
  [name: string]: unknown;
  port: number;
  address: string | null;
  pid: number | null;
  command: string;
  url_path: string;
}

/** As `sandbox/session/ports.py` describes an app. */
interface SessionPort {
  port: number;
  pid: number | null;
  command: string;
  path?: string;
}

const MAX_PORTS = 200;
const MAX_COMMAND_CHARS = 200;

export class WindowView {
  /** `sessionSocket`: path of the session's socket; empty if the window belongs to no session. */
  constructor(private readonly sessionSocket: () => string) {}

  /** Whether a screenshot of the window can be taken. */
  get canTakeScreenshots(): boolean {
    return this.sessionSocket() !== "";
  }

  /**
   * VS Code has no stable API for its view of ports. In a session these are the ports that the
   * session found, otherwise those of this user's programs on the machine of the extensions.
   */
  async ports(): Promise<ObservationBody<"list_ports">> {
    const socket = this.sessionSocket();
    const all = socket ? await sessionPorts(socket) : machinePorts();
    const items = all.sort((one, other) => one.port - other.port).slice(0, MAX_PORTS);
    const content = items.map(portText).join("\n") || "No program listens on a port";
    return observe("list_ports", content, { items, truncated: all.length > items.length });
  }

  async screenshot(): Promise<ObservationBody<"screenshot">> {
    const socket = this.sessionSocket();
    if (!socket)
      throw new Failure(
        "capability.missing",
        "VS Code has no API for pictures of its window; only a session with `runtime: vscode`, whose window is in its own browser, can take them",
      );
    const { png } = await askSession(socket, "screenshot");
    if (typeof png !== "string") throw new Failure("execution", "The session sent no picture");
    return observe("screenshot", "A picture of the session's window", {
      image_url: `data:image/png;base64,${png}`,
    });
  }
}

async function sessionPorts(socket: string): Promise<PortItem[]> {
  const { ports } = (await askSession(socket, "ports")) as { ports: SessionPort[] };
  return ports.map(({ port, pid, command, path }) => ({
    port,
    address: null,
    pid,
    command,
    url_path: path ?? "",
  }));
}

function machinePorts(): PortItem[] {
  const found = listeningPorts();
  if (!found)
    throw new Failure(
      "capability.missing",
      "Ports are read from /proc, which the machine of this window's extensions does not have",
    );
  const owners = socketOwners(new Set(found.map(({ inode }) => inode)));
  return found.flatMap(({ port, address, inode }) => {
    const pid = owners.get(inode);
    // Without an owner it is a port of another user.
    return pid === undefined ? [] : [{ port, address, pid, command: commandOf(pid), url_path: "" }];
  });
}

function portText({ port, address, pid, command, url_path: path }: PortItem): string {
  const place = address === null ? `port ${port}` : `${address}:${port}`;
  const short =
    command.length > MAX_COMMAND_CHARS ? `${command.slice(0, MAX_COMMAND_CHARS)}…` : command;
  const facts = [...(pid === null ? [] : [`process ${pid}`]), ...(path ? [`app ${path}`] : [])];
  return `${place}${facts.length ? ` (${facts.join(", ")})` : ""}${short ? `: ${short}` : ""}`;
}
