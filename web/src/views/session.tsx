import { useMemo, useState } from "preact/hooks";
import { connection, loads, me, now, rest, sessions, windows } from "../state";
import { EmptyState, ErrorNote, PageHead, bytesText, sinceText } from "../ui/parts";
import { LastScreenshot, Timeline, useLog } from "../timeline/timeline";
import { Controls, coresText, nameOf, useMeasures } from "./sessions";
import { Files, sessionFiles } from "./files";
import { ForksView } from "./forks";
import { Review } from "./review";
import { Sharing } from "./sharing";
import { LazyView } from "./lazy_view";
import { Tabs } from "./tabs";
import { saveAs } from "../ui/download";

/** Loaded on demand: the terminal is most of the page's JavaScript. */
const terminal = () => import("./terminal").then((module) => module.Terminal);

export function SessionView({ id }: { id: string }) {
  const session = sessions.value.get(id);
  const [trouble, setTrouble] = useState("");
  const files = useMemo(() => sessionFiles(id), [id]);
  const log = useLog(connection, { kind: "session", id });
  useMeasures();
  const isReady = session?.state === "ready";
  if (!session)
    return (
      <EmptyState icon="sessions" title="Session not found">
        <p>It may have been deleted, or belong to somebody else.</p>
        <a class="button" href="/sessions" data-inside>
          All sessions
        </a>
      </EmptyState>
    );
  const load = loads.value.get(id);
  const who = me.value;
  const mayShare =
    who?.scope === "admin" || (who?.scope === "member" && who.owner === session.owner);
  const isRunning = session.state === "ready" || session.state === "paused";
  return (
    <>
      <PageHead
        list={{ href: "/sessions", label: "Sessions" }}
        title={nameOf(session)}
        state={session.state}
        about={
          <>
            {session.id} · {session.spawner} · {sinceText(session.created, now.value)} old · idle{" "}
            {sinceText(session.last_active, now.value)}
            {isReady && load && ` · CPU ${coresText(load.cores)} · ${bytesText(load.memory)}`}
          </>
        }
      >
        <Controls session={session} onTrouble={setTrouble} />
      </PageHead>
      {trouble && <ErrorNote what={trouble} again={() => setTrouble("")} />}
      {session.state === "starting" && <p class="stage">{session.stage || "starting"}…</p>}
      {session.state === "failed" && <Failed id={id} cause={session.cause} />}
      {windows.value
        .filter((each) => each.session_id === id)
        .map(({ connection_id: window }) => (
          <Review key={window} window={window} />
        ))}
      <Tabs
        tabs={[
          {
            name: "Timeline",
            show: () => (
              <Timeline
                log={log}
                download={() => download(id, nameOf(session))}
                restore={(checkpoint, isDryRun) => rest.restore(id, checkpoint, isDryRun)}
              />
            ),
          },
          {
            name: "Terminal",
            show: () =>
              isRunning ? (
                <LazyView load={terminal} session={id} />
              ) : (
                <SessionNotRunning state={session.state} />
              ),
          },
          {
            name: "Files",
            show: () =>
              isRunning ? <Files source={files} /> : <SessionNotRunning state={session.state} />,
          },
          { name: "Forks", show: () => <ForksView session={session} /> },
          { name: "Browser", show: () => <LastScreenshot log={log} /> },
          ...(mayShare ? [{ name: "Sharing", show: () => <Sharing session={id} /> }] : []),
        ]}
      />
    </>
  );
}

async function download(id: string, name: string): Promise<void> {
  saveAs(await rest.timeline({ kind: "session", id }), `${name}.jsonl`);
}

function SessionNotRunning({ state }: { state: string }) {
  return (
    <EmptyState icon="play" title={`The session is ${state}`}>
      <p>
        {state === "starting"
          ? "This view opens when the session is ready."
          : "Resume the session to open it. Its files are kept."}
      </p>
    </EmptyState>
  );
}

function Failed({ id, cause }: { id: string; cause: string }) {
  const [logText, setLogText] = useState("");
  return (
    <div class="trouble" role="alert">
      <pre>{cause}</pre>
      {logText ? (
        <pre>{logText}</pre>
      ) : (
        <button
          type="button"
          onClick={() =>
            void rest.logs(id).then(
              (text) => setLogText(text || "The log is empty."),
              (error: unknown) => setLogText(String(error)),
            )
          }
        >
          Show log
        </button>
      )}
    </div>
  );
}
