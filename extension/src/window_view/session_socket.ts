/** Asks the session of this window for what VS Code's API does not offer. */
import * as net from "node:net";
import { within } from "../common/deadline";
import { Failure, messageOf } from "../common/failure";

const ANSWER_MS = 30_000;
/** Maximum characters of an answer, which may be a screenshot. */
const MAX_ANSWER = 64 << 20;

/** Sends `{"get": what}` and returns the answer. See `sandbox/session/editor_socket.py`. */
export async function askSession(
  socket: string,
  what: "ports" | "screenshot",
): Promise<Record<string, unknown>> {
  const connection = net.createConnection(socket);
  const late = (): Error => new Failure("execution", "The session of this window does not answer");
  try {
    const text = await within(exchange(connection, JSON.stringify({ get: what })), ANSWER_MS, late);
    const answer = JSON.parse(text) as Record<string, unknown>;
    const { error } = answer as { error?: { code: string; message: string } };
    if (error) throw new Failure(error.code, error.message);
    return answer;
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure("execution", `The session of this window: ${messageOf(error)}`);
  } finally {
    connection.destroy();
  }
}

function exchange(connection: net.Socket, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: string[] = [];
    let length = 0;
    connection.setEncoding("utf8");
    connection.on("connect", () => connection.write(`${request}\n`));
    connection.on("data", (piece) => {
      pieces.push(String(piece));
      length += piece.length;
      if (length > MAX_ANSWER) connection.destroy(new Error("the answer is too long"));
    });
    connection.on("error", reject);
    connection.on("close", () => resolve(pieces.join("")));
  });
}
