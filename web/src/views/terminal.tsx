import { FitAddon } from "@xterm/addon-fit";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { Terminal as XTerm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { connection } from "../state";

const SHELL_NAME = "page";

/**
 * Bash in the session's workspace. The shell outlives this view, the page and the hub; opening
 * the view again shows the same shell.
 */
export function Terminal({ session }: { session: string }) {
  const container = useRef<HTMLDivElement>(null);
  const [ended, setEnded] = useState("");
  useEffect(() => {
    if (!container.current) return;
    const terminal = new XTerm({
      allowProposedApi: true, // needed by the Unicode addon below
      cursorBlink: true,
      fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
      fontSize: 13,
      screenReaderMode: false,
      scrollback: 5000,
      theme: { background: "#15181e", foreground: "#dfe3ea", cursor: "#8ab0ff" },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    // Bash counts an emoji as two columns. xterm.js does so only with this addon; without it, a
    // wrapped line that contains an emoji overwrites itself.
    terminal.loadAddon(new Unicode11Addon());
    terminal.unicode.activeVersion = "11";
    terminal.open(container.current);
    fit.fit();
    let next: number | null = null;
    const encoder = new TextEncoder();
    const leave = connection.show(session, SHELL_NAME, {
      position: () => ({ columns: terminal.cols, rows: terminal.rows, start: next }),
      output(offset, data) {
        setEnded("");
        if (next !== null && offset < next) {
          const known = next - offset;
          if (known >= data.length) return;
          data = data.subarray(known);
          offset = next;
        }
        next = offset + data.length;
        terminal.write(data);
      },
      ended(why) {
        next = null;
        setEnded(why);
      },
    });
    const typed = terminal.onData((keys) =>
      connection.type(session, SHELL_NAME, encoder.encode(keys)),
    );
    const binary = terminal.onBinary((keys) =>
      connection.type(
        session,
        SHELL_NAME,
        Uint8Array.from(keys, (each) => each.charCodeAt(0)),
      ),
    );
    const sized = terminal.onResize(({ cols, rows }) =>
      connection.resize(session, SHELL_NAME, cols, rows),
    );
    const resized = new ResizeObserver(() => fit.fit());
    resized.observe(container.current);
    terminal.focus();
    return () => {
      leave();
      resized.disconnect();
      for (const each of [typed, binary, sized]) each.dispose();
      terminal.dispose();
    };
  }, [session]);
  return (
    <div class="terminal">
      <div ref={container} class="terminal-place" />
      {ended && (
        <p class="terminal-end" role="status">
          {ended}{" "}
          <button type="button" onClick={() => connection.reopen(session, SHELL_NAME)}>
            Open a new terminal
          </button>
        </p>
      )}
    </div>
  );
}
