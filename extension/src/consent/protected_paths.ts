/**
 * Files from which VS Code, git or a shell runs programs automatically. Changes are always asked
 * about.
 */

const DIRECTORIES = new Set([".vscode", ".git", ".husky"]);

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
    last === ".envrc" ||
    last.endsWith(".code-workspace")
  );
}
