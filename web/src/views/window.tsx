import { LastScreenshot, Timeline, useLog } from "../timeline/timeline";
import { approvals, connection, now, windows } from "../state";
import { Badge, Empty, since } from "../ui/parts";
import { Question } from "./approvals";
import { Tabs } from "./tabs";
import { foldersOf, titleOf } from "./windows";

export function WindowView({ id }: { id: string }) {
  const window = windows.value.find((each) => each.connection_id === id);
  const log = useLog(connection, { kind: "window", id });
  if (!window)
    return (
      <Empty icon="windows" title="This window is not connected">
        <p>It was closed, or its hub was restarted and it has not come back yet.</p>
        <a class="button" href="/windows" data-inside>
          All windows
        </a>
      </Empty>
    );
  return (
    <>
      <header class="head">
        <div>
          <nav class="crumbs" aria-label="Where you are">
            <a href="/windows" data-inside>
              Windows
            </a>
          </nav>
          <h1>
            {titleOf(window)} <Badge state={window.status} />
          </h1>
          <p class="sub">
            {foldersOf(window)} · VS Code {window.vscode_version || "?"} · extension{" "}
            {window.extension_version || "?"} · {window.platform || "?"} · seen{" "}
            {since(window.last_heartbeat, now.value) || "just now"}
          </p>
        </div>
      </header>
      {approvals.value
        .filter((each) => each.window_id === id)
        .map((each) => (
          <Question key={each.id} approval={each} />
        ))}
      <Tabs
        tabs={[
          { name: "Timeline", show: () => <Timeline log={log} /> },
          { name: "Browser", show: () => <LastScreenshot log={log} /> },
        ]}
      />
    </>
  );
}
