/** Decides which variables a command text may set without asking the user. */

const HARMLESS = new Set([
  "LANG",
  "TZ",
  "TERM",
  "COLUMNS",
  "LINES",
  "NO_COLOR",
  "FORCE_COLOR",
  "CLICOLOR",
  "CLICOLOR_FORCE",
  "CI",
  "DEBUG",
  "VERBOSE",
  "NODE_ENV",
  "RUST_BACKTRACE",
  "RUST_LOG",
  "PYTHONUNBUFFERED",
]);
const PROXIES = new Set(["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"]);

/** Whether a text may set it for one command: written before the command, or set by `env`. */
export function maySetForCommand(name: string): boolean {
  return HARMLESS.has(name) || /^LC_\w*$/.test(name);
}

/** In the shell itself. Of the lower-case names, programs read only those excluded here. */
export function maySetInShell(name: string): boolean {
  const small = /^[a-z_][a-z0-9_]*$/.test(name);
  return maySetForCommand(name) || (small && !PROXIES.has(name) && !name.startsWith("npm_config_"));
}
