/** Finds the Python that cells run in. */
import * as fs from "node:fs";
import * as path from "node:path";
import { which } from "../terminal/observations";

/** The setting, else the workspace's virtual environment, else the system's Python. */
export function findPython(setting: string, workspace: string): string {
  if (setting) return setting;
  const [own] = environmentsOf(workspace);
  if (own) return own;
  const searched = process.env.PATH ?? "";
  return which("python3", searched) ?? which("python", searched) ?? "python3";
}

/** Python interpreters of the virtual environments in a folder. */
export function environmentsOf(folder: string): string[] {
  const names = [".venv", "venv"].map((name) => path.join(folder, name, "bin/python"));
  return names.filter((each) => fs.existsSync(each));
}
