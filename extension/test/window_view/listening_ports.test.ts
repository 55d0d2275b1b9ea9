import * as net from "node:net";
import { expect, test } from "vitest";
import { listening, listeningPorts, socketOwners } from "../../src/window_view/listening_ports";

const TCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0
   2: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 333 1 0
   3: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 444 1 0
   4: B80D0120000000000000000001000000:0051 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 555 1 0
`;

test("listening sockets are read from the kernel's table", () => {
  expect(listening(TCP)).toEqual([
    { port: 8080, address: "127.0.0.1", inode: "111" },
    { port: 22, address: "0.0.0.0", inode: "222" },
    { port: 80, address: "::1", inode: "444" },
    { port: 81, address: "2001:db8:0:0:0:0:0:1", inode: "555" },
  ]);
});

test("a socket of this process is found with its owner", async () => {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as net.AddressInfo;
  const found = listeningPorts()?.find((each) => each.port === port);
  expect(found?.address).toBe("127.0.0.1");
  expect(socketOwners(new Set([found?.inode ?? ""])).get(found?.inode ?? "")).toBe(process.pid);
  await new Promise((resolve) => server.close(resolve));
});
