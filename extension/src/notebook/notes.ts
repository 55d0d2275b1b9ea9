/**
 * Notes around a cell's output. The same texts as the sandbox's
 * (src/bascule/sandbox/ipython/notes.py): agents are trained on them.
 */
export const NO_OUTPUT = "[Code executed successfully with no output]";
export const WORKER_GONE =
  "[The process that ran the kernel has ended, and the kernel with it. All variables are gone; " +
  "the next cell gets a new kernel.]";

export function locationNote(cwd: string, python: string): string {
  return `[Jupyter current working directory: ${cwd}]\n[Jupyter Python interpreter: ${python}]`;
}
