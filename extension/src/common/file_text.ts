import * as fs from "node:fs";

/** The text of a file. Undefined if it cannot be read, for example because it does not exist. */
export function textIfReadable(file: string): string | undefined {
  try {
    return fs.readFileSync(file, "utf8");
  } catch {
    return undefined; // the caller treats an unreadable file like a missing one
  }
}
