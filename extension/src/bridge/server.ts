/**
 * The WebSocket server for scripts, on loopback, open while there is a run. A connection is refused
 * before the upgrade unless its Host header names this server, it has no Origin header (so it is
 * not from a web page), and it has the token of a run.
 */
import { randomUUID } from "node:crypto";
import { createServer, STATUS_CODES, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import type { BridgeClient, RequestHandlers } from "./dispatcher";
import { format, MAX_MESSAGE_BYTES, parse, BRIDGE_PROTOCOL, SUBPROTOCOL } from "./messages";
import { Runs, type Run } from "./runs";

const HOST = "127.0.0.1";
/** Milliseconds to receive the headers of a request; the client is on this machine. */
const HEADERS_TIMEOUT_MS = 1000;
/** Milliseconds between two pings. A client that does not answer a ping is disconnected. */
const PING_MS = 30_000;
/** Maximum unsent bytes for a client before it is disconnected. */
const MAX_UNSENT_BYTES = 32 << 20;
/** WebSocket close codes. */
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;

/** The environment variables with which a process connects. Disposing ends the run. */
export interface RunConnection extends Disposable {
  readonly session: string;
  readonly environment: Readonly<Record<string, string>>;
}

export interface RunBridgeSettings {
  /** 0: any free port. */
  port: () => number;
  version: string;
}

export class RunBridge implements Disposable {
  private readonly runs: Runs;
  /**
   * Id of this server instance. A client that reconnects to another instance knows that its
   * requests are lost.
   */
  private readonly instance = randomUUID();
  private readonly sockets = new Map<WebSocket, Run>();
  /** Sockets that answered the last ping. */
  private readonly alive = new WeakSet<WebSocket>();
  private listening: Promise<Server> | undefined;
  private pingTimer: NodeJS.Timeout | undefined;
  private readonly upgrades = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
  });

  constructor(
    private readonly handlers: RequestHandlers,
    private readonly settings: RunBridgeSettings,
    private readonly log: Log,
  ) {
    this.runs = new Runs(handlers, log);
  }

  /** Starts a run, which ends when the result is disposed. Fails if the port is in use. */
  async open(name: string): Promise<RunConnection> {
    const { run, token } = this.runs.begin(name);
    try {
      const { port } = (await this.listen()).address() as AddressInfo;
      this.log.info(`run ${run.id} (${name}) may send requests to this window on port ${port}`);
      return {
        session: run.id,
        environment: {
          EVOLVE_RUN_BRIDGE_ADDR: `ws://${HOST}:${port}/`,
          EVOLVE_RUN_BRIDGE_TOKEN: token,
          EVOLVE_RUN_BRIDGE_SESSION: run.id,
        },
        dispose: () => this.end(run),
      };
    } catch (error) {
      this.end(run);
      throw new Failure("bridge.unavailable", `The run bridge cannot listen: ${messageOf(error)}`);
    }
  }

  dispose(): void {
    for (const run of this.runs) this.end(run);
  }

  private end(run: Run): void {
    this.runs.end(run);
    for (const [socket, owner] of this.sockets)
      if (owner === run) {
        socket.close(GOING_AWAY, "the run has ended");
        setTimeout(() => socket.terminate(), HEADERS_TIMEOUT_MS).unref();
      }
    if (!this.runs.size) this.stop();
  }

  // The server -----------------------------------------------------------------------------

  private listen(): Promise<Server> {
    this.listening ??= new Promise<Server>((resolve, reject) => {
      const server = createServer((_, response) => response.writeHead(426).end());
      server.headersTimeout = HEADERS_TIMEOUT_MS;
      server.requestTimeout = HEADERS_TIMEOUT_MS;
      server.maxHeadersCount = 64;
      server.on("upgrade", (request, socket, head) =>
        this.upgrade(request, socket as Socket, head),
      );
      server.once("error", (error) => {
        this.listening = undefined;
        reject(error);
      });
      server.listen(this.settings.port(), HOST, () => resolve(server));
      this.pingTimer = setInterval(() => this.pingClients(), PING_MS);
      this.pingTimer.unref();
    });
    return this.listening;
  }

  private stop(): void {
    clearInterval(this.pingTimer);
    void this.listening?.then(
      (server) => {
        server.close();
        server.closeAllConnections();
      },
      () => undefined,
    );
    this.listening = undefined;
  }

  private upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on("error", (error) => this.log.debug(`run bridge: ${error.message}`));
    const admitted = this.admit(request, socket.localPort);
    if (typeof admitted === "number") {
      this.log.warn(`run bridge: refused a connection with ${admitted}`);
      socket.end(
        `HTTP/1.1 ${admitted} ${STATUS_CODES[admitted] ?? ""}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      );
      return;
    }
    this.upgrades.handleUpgrade(request, socket, head, (upgraded) =>
      this.serve(upgraded, admitted),
    );
  }

  /** The run, or the HTTP status of the refusal. */
  private admit({ headers, url }: IncomingMessage, port: number | undefined): Run | number {
    const hosts = [HOST, "localhost", "[::1]"].map((name) => `${name}:${port ?? 0}`);
    if (headers.origin !== undefined || !hosts.includes(headers.host?.toLowerCase() ?? ""))
      return 403;
    const token = /^Bearer ([\w-]{1,200})$/i.exec(headers.authorization ?? "")?.[1];
    const run = token === undefined ? undefined : this.runs.find(token);
    if (!run) return 401;
    if (url !== "/") return 404;
    return run.isFull ? 503 : run;
  }

  // A connection ---------------------------------------------------------------------------

  private serve(socket: WebSocket, run: Run): void {
    this.sockets.set(socket, run);
    let client = this.clientOf(socket, randomUUID());
    run.joined(client);
    this.alive.add(socket);
    socket.on("pong", () => this.alive.add(socket));
    socket.on("error", (error) => this.log.debug(`run bridge: ${error.message}`));
    socket.on("close", () => {
      this.sockets.delete(socket);
      run.left(client);
    });
    socket.on("message", (data, isBinary) => {
      try {
        if (isBinary) throw new Failure("bridge.protocol", "Messages must be text");
        const message = parse((data as Buffer).toString());
        if (message.is !== "hello") return run.dispatcher.receive(client, message);
        // `id` is the client's own id, which stays the same when it reconnects.
        const { id, pid } = message.params;
        this.log.debug(`run ${run.id}: a script connected (pid ${String(pid)})`);
        if (typeof id === "string" && id) {
          const known = this.clientOf(socket, id);
          run.joined(known);
          run.left(client);
          client = known;
        }
        client.send(format({ type: "bridge/hello", params: this.hello(run) }));
      } catch (error) {
        this.log.warn(`run ${run.id}: ${messageOf(error)}`);
        socket.close(POLICY_VIOLATION, "not a bridge message");
      }
    });
  }

  private clientOf(socket: WebSocket, key: string): BridgeClient {
    return {
      key,
      send: (text) => {
        if (socket.readyState !== socket.OPEN) return;
        if (socket.bufferedAmount > MAX_UNSENT_BYTES) socket.terminate();
        else socket.send(text);
      },
    };
  }

  private hello(run: Run): Record<string, unknown> {
    return {
      protocol: BRIDGE_PROTOCOL,
      server: `bascule-vscode/${this.settings.version}`,
      instance: this.instance,
      session: run.id,
      capabilities: Object.keys(this.handlers).sort(),
      limits: { messageBytes: MAX_MESSAGE_BYTES },
    };
  }

  private pingClients(): void {
    for (const socket of this.sockets.keys()) {
      if (!this.alive.delete(socket)) socket.terminate();
      else socket.ping();
    }
  }
}
