import { useMemo, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { Window } from "../hub/types";
import { LastScreenshot, Timeline, useLog, type LiveLog } from "../timeline/timeline";
import { approvals, connection, now, rest, windows } from "../state";
import { ActionButton, EmptyState, ErrorNote, PageHead, sinceText } from "../ui/parts";
import { Question } from "./approvals";
import { Review } from "./review";
import { Files, type FileSource } from "./files";
import { Tabs } from "./tabs";
import { saveAs } from "../ui/download";
import { foldersOf, titleOf } from "./windows";

export function WindowView({ id }: { id: string }) {
  const window = windows.value.find((each) => each.connection_id === id);
  const log = useLog(connection, { kind: "window", id });
  const first = window?.folders[0]?.path ?? "";
  const files = useMemo(() => windowFiles(id, first), [id, first]);
  if (!window)
    return (
      <EmptyState icon="windows" title="This window is not connected">
        <p>The window was closed, or it has not reconnected since the hub was restarted.</p>
        <a class="button" href="/windows" data-inside>
          All windows
        </a>
      </EmptyState>
    );
  return (
    <>
      <PageHead
        list={{ href: "/windows", label: "Windows" }}
        title={titleOf(window)}
        state={window.status}
        about={descriptionOf(window)}
      />
      {approvals.value
        .filter((each) => each.window_id === id)
        .map((each) => (
          <Question key={each.id} approval={each} />
        ))}
      <Review window={id} />
      <Tabs
        tabs={[
          { name: "Timeline", show: () => <WindowTimeline id={id} log={log} /> },
          { name: "Files", show: () => <Files source={files} /> },
          { name: "Browser", show: () => <LastScreenshot log={log} /> },
        ]}
      />
    </>
  );
}

/** The window's timeline and a command line. The window's user must consent, as for agents. */
function WindowTimeline({ id, log }: { id: string; log: LiveLog }) {
  const [command, setCommand] = useState("");
  const [trouble, setTrouble] = useState("");
  const run = async (): Promise<void> => {
    if (command.trim() === "") return;
    setTrouble("");
    setCommand("");
    await rest.actInWindow(id, { action: "run", args: { command, shell: "page" } });
  };
  return (
    <>
      <form
        class="command"
        onSubmit={(event) => {
          event.preventDefault();
          run().catch((error: unknown) => setTrouble(messageOf(error)));
        }}
      >
        <label>
          <span class="hidden">Command to run in this window</span>
          <input
            value={command}
            onInput={(event) => setCommand(event.currentTarget.value)}
            placeholder="Run a command in this window"
            autocomplete="off"
            spellcheck={false}
          />
        </label>
        <ActionButton label="Run" act={run} onTrouble={setTrouble} />
      </form>
      {trouble && <ErrorNote what={trouble} />}
      <Timeline
        log={log}
        restore={(checkpoint, isDryRun) => rest.restoreInWindow(id, checkpoint, isDryRun)}
        download={async () =>
          saveAs(await rest.timeline({ kind: "window", id }), `window-${id}.jsonl`)
        }
      />
    </>
  );
}

function descriptionOf(window: Window): string {
  return [
    foldersOf(window),
    `VS Code ${window.vscode_version || "?"}`,
    `extension ${window.extension_version || "?"}`,
    window.platform,
    `seen ${sinceText(window.last_heartbeat, now.value) || "just now"}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** Reads through actions of the window, so the same access rules apply as for agents. */
function windowFiles(window: string, first: string): FileSource {
  return {
    async list(path) {
      const where = path || first || ".";
      const seen = await rest.actInWindow(window, { action: "list", args: { path: where } });
      if (seen.observation !== "list") return { path: where, names: [] };
      const names = (seen.extras.entries ?? []).map((entry) =>
        entry.type === "directory" ? `${entry.path}/` : entry.path,
      );
      return { path: seen.extras.path, names };
    },
    async read(path) {
      const seen = await rest.actInWindow(window, { action: "read", args: { path } });
      return new Blob([seen.content]);
    },
  };
}
