/** A hub that keeps to docs/extension-protocol.md as far as a window can see: real sockets, real HTTP. */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Server, type Socket } from "socket.io";
import type { ReviewList } from "../../src/hub/messages";
import type { SentObservation } from "../../src/protocol";

export const TOKEN = "a-token";

type Registration = Record<string, unknown> & { nonce: string };

export class FakeHub {
  readonly registrations: Registration[] = [];
  readonly observations: SentObservation[] = [];
  readonly progress: { cause: string; offset: number; data: string }[] = [];
  readonly changes: Record<string, unknown>[] = [];
  readonly reviews: ReviewList[] = [];
  /** Called when a registration has come; it is answered afterwards. */
  onRegistration: () => void | Promise<void> = () => undefined;
  /** Whether observations are confirmed. */
  confirms = true;
  /** What registering answers with. */
  status = 200;
  /** Sent in place of `hello`. */
  refusal: { code: string; message: string } | undefined;
  messageBytes = 1 << 20;
  connections = 0;

  private http: HttpServer | undefined;
  private io: Server | undefined;
  private socket: Socket | undefined;
  private port = 0;
  private nonce = "";
  private readonly waiting: (() => void)[] = [];

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const http = createServer((request, response) => {
      void this.register(request).then(([status, body]) => {
        response.writeHead(status, { "Content-Type": "application/json" });
        response.end(JSON.stringify(body));
      });
    });
    const io = new Server(http, {
      transports: ["websocket"],
      allowRequest: (request, allow) => {
        const known = request.headers.authorization === `Bearer ${TOKEN}`;
        allow(known ? null : "401 unauthorized", known);
      },
    });
    io.of("/window").on("connection", (socket) => this.connected(socket));
    await new Promise<void>((resolve) => http.listen(this.port, "127.0.0.1", resolve));
    this.port = (http.address() as AddressInfo).port;
    [this.http, this.io] = [http, io];
  }

  /** The transport is closed, as when the process ends; the port is free for `start` again. */
  async stop(): Promise<void> {
    this.io?.engine.close();
    this.http?.closeAllConnections();
    await new Promise((resolve) => this.http?.close(resolve));
  }

  /** Loses the connection without a word. */
  cut(): void {
    this.socket?.conn.close();
  }

  act(action: string, args: object, more: object = {}): string {
    const id = randomUUID();
    this.send({ id, action, args, agent: "tester", ...more });
    return id;
  }

  send(event: object): void {
    this.socket?.emit("oh_event", event);
  }

  async cancel(id: string): Promise<unknown> {
    return this.socket?.emitWithAck("oh_cancel", { id });
  }

  /** Asks about the review, and returns the window's reply. */
  async review(event: "review.show" | "review.answer", request: object): Promise<unknown> {
    return this.socket?.emitWithAck(event, request);
  }

  async health(): Promise<unknown> {
    return this.socket?.timeout(1000).emitWithAck("health", {});
  }

  async mergeBegan(merge: object): Promise<unknown> {
    return this.socket?.emitWithAck("merge.began", merge);
  }

  mergeEnded(id: string): void {
    this.socket?.emit("merge.ended", { id });
  }

  supersede(): void {
    this.socket?.emit("superseded", {});
  }

  /** A Socket.IO disconnect: do not come back. */
  dismiss(): void {
    this.socket?.disconnect();
  }

  /** Once `seen` holds; looked at whenever something came. */
  async until(seen: () => boolean): Promise<void> {
    while (!seen()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  private connected(socket: Socket): void {
    this.socket = socket;
    this.connections += 1;
    this.came();
    this.nonce = randomUUID();
    if (this.refusal) {
      socket.emit("refused", this.refusal);
      return;
    }
    const limits = { message_bytes: this.messageBytes };
    socket.emit("hello", { nonce: this.nonce, protocol: 1, version: "0", limits, heartbeat: 3 });
    socket.on("oh_event", (observation: SentObservation, ack: (received: object) => void) => {
      this.observations.push(observation);
      if (this.confirms) ack({ received: true });
      this.came();
    });
    socket.on("window.changed", (change: Record<string, unknown>) => {
      this.changes.push(change);
      this.came();
    });
    socket.on("review.changed", (list: ReviewList) => {
      this.reviews.push(list);
      this.came();
    });
    socket.on("oh_progress", (message: (typeof this.progress)[number]) => {
      this.progress.push(message);
      this.came();
    });
  }

  private async register(request: IncomingMessage): Promise<[number, object]> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const registration = JSON.parse(text) as Registration;
    this.registrations.push(registration);
    await this.onRegistration();
    setImmediate(() => this.came());
    if (this.status !== 200) return [this.status, { code: "window.taken", message: "taken" }];
    if (registration.nonce !== this.nonce)
      return [400, { code: "nonce.invalid", message: "stale" }];
    return [200, { connection_id: registration.window_id, message: "", replaced: false }];
  }

  private came(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}
