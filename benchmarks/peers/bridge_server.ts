// Two servers in one Node process: the extension's own run bridge, without VS Code behind it, and a
// bare WebSocket echo of the same library. Prints where they are, and ends with its input.
import { WebSocketServer } from "ws";
import { RunBridge } from "../../extension/src/bridge/server";

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

async function main(): Promise<void> {
  const bridge = new RunBridge(
    { "bridge/ping": ({ params }) => Promise.resolve(params) },
    { port: () => 0, version: "0" },
    quiet,
  );
  const echo = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  echo.on("connection", (socket) =>
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary })),
  );
  await new Promise((resolve) => echo.once("listening", resolve));
  const { environment } = await bridge.open("benchmark");
  const { port } = echo.address() as { port: number };
  console.log(JSON.stringify({ ...environment, echo: `ws://127.0.0.1:${port}/` }));
}

process.stdin.on("end", () => process.exit()).resume();
void main();
