/** Text without what only terminals understand. */

// eslint-disable-next-line no-control-regex -- these sequences begin with the character ESC
const ESCAPES = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

/** Without colours and other control sequences of terminals. */
export function withoutEscapes(text: string): string {
  return text.replace(ESCAPES, "");
}

/** Without control sequences of terminals, and with line feeds as line ends. */
export function withoutControls(text: string): string {
  return withoutEscapes(text).replaceAll("\r\n", "\n");
}
