/** Which files are nets, and the program that knows them. */
export const NET_ENDINGS = [".evolve.yaml", ".evolve.yml", ".pnml.yaml", ".pnml"] as const;

export function isNet(path: string): boolean {
  return NET_ENDINGS.some((ending) => path.endsWith(ending));
}

/** `bascule` with these arguments: that of a Python, or else the command. */
export function bascule(python: string, ...args: string[]): [string, ...string[]] {
  return python ? [python, "-m", "bascule", ...args] : ["bascule", ...args];
}
