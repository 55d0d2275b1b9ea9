/** Reads from /proc on which TCP ports programs listen. */
import * as fs from "node:fs";
import * as path from "node:path";

export interface ListeningPort {
  port: number;
  address: string;
  inode: string;
}

/** Column `st` of a socket that listens. */
const LISTEN = "0A";

/** The listening sockets in a table such as /proc/net/tcp. Rules only, no I/O. */
export function listening(table: string): ListeningPort[] {
  return table
    .split("\n")
    .slice(1)
    .flatMap((row) => {
      const [, local = "", , state, , , , , , inode = ""] = row.trim().split(/\s+/);
      const [address = "", port = ""] = local.split(":");
      if (state !== LISTEN) return [];
      return [{ port: parseInt(port, 16), address: addressOf(address), inode }];
    });
}

/** The kernel writes addresses as 32-bit words in the byte order of the machine. */
function addressOf(hex: string): string {
  const words = hex.match(/.{8}/g) ?? [];
  const bytes = words.flatMap((word) => [...Buffer.from(word, "hex")].reverse());
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.every((byte) => byte === 0)) return "::";
  if (bytes.slice(0, 15).every((byte) => byte === 0) && bytes[15] === 1) return "::1";
  const groups = Array.from({ length: 8 }, (_, n) =>
    (((bytes[2 * n] ?? 0) << 8) | (bytes[2 * n + 1] ?? 0)).toString(16),
  );
  return groups.join(":");
}

/** All listening sockets; undefined if this system has no /proc. */
export function listeningPorts(): ListeningPort[] | undefined {
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) => readOrNothing(file));
  return tables.length ? tables.flatMap(listening) : undefined;
}

/** The process of each socket, by inode. Processes of other users are not found. */
export function socketOwners(inodes: ReadonlySet<string>): Map<string, number> {
  const found = new Map<string, number>();
  for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)))
    for (const inode of socketsOf(pid))
      if (inodes.has(inode) && !found.has(inode)) found.set(inode, Number(pid));
  return found;
}

function socketsOf(pid: string): string[] {
  const directory = path.join("/proc", pid, "fd");
  try {
    return fs.readdirSync(directory).flatMap((fd) => {
      const [, inode] = /^socket:\[(\d+)\]$/.exec(linkOf(path.join(directory, fd))) ?? [];
      return inode === undefined ? [] : [inode];
    });
  } catch {
    return []; // the process has ended, or belongs to another user
  }
}

function linkOf(file: string): string {
  try {
    return fs.readlinkSync(file);
  } catch {
    return ""; // closed meanwhile
  }
}

function readOrNothing(file: string): string[] {
  try {
    return [fs.readFileSync(file, "utf8")];
  } catch {
    return []; // no Linux, or no IPv6
  }
}
