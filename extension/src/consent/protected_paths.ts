/** Files that make VS Code, git or a shell run programs by themselves: changing one is always asked. */

const DIRECTORIES = new Set([".vscode", ".git", ".husky"]);

/** Judges a path with links and `..` resolved, as the file systems do that take case as the same. */
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
