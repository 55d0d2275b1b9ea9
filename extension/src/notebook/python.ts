/** Finds the Python that cells run in. */
import * as fs from "node:fs";
import * as path from "node:path";
import { which } from "../terminal/answers";

/** The one that is set, else that of the workspace's own environment, else the system's. */
export function findPython(setting: string, workspace: string): string {
  if (setting) return setting;
  for (const name of [".venv", "venv"]) {
    const own = path.join(workspace, name, "bin/python");
    if (fs.existsSync(own)) return own;
  }
  const searched = process.env.PATH ?? "";
  return which("python3", searched) ?? which("python", searched) ?? "python3";
}
