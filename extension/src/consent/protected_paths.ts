/**
 * Files from which VS Code, git or a shell runs programs automatically, and Bascule's own settings
 * and rules. The user is always asked before one of them is changed.
 */

const DIRECTORIES = new Set([".vscode", ".git", ".husky"]);
const FILES = new Set([".envrc", "bascule.toml"]);

/** Expects a resolved path. Ignores case, because some file systems do. */
export function isProtected(file: string): boolean {
  const names = file.split("/").map((name) =>
    name
      .normalize("NFKC")
      .replace(/\p{Cf}/gu, "")
      .toLowerCase(),
  );
  const last = names.at(-1) ?? "";
  return (
    names.some((name) => DIRECTORIES.has(name)) ||
    FILES.has(last) ||
    (last === "rules.toml" && names.at(-2) === "bascule") ||
    last.endsWith(".code-workspace")
  );
}
