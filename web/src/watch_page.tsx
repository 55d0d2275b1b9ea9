import { useEffect, useState } from "preact/hooks";
import { Banner, SignInAgain } from "./app";
import type { Session } from "./hub/types";
import { connection, me, sessions, connectionState } from "./state";
import { Timeline, useLog } from "./timeline/timeline";
import { Icon } from "./ui/icons";
import { Badge, EmptyState } from "./ui/parts";
import { DemoSteps, demoOf, PLAY_LINK } from "./views/demo";
import { nameOf } from "./views/sessions";

const FRAME_PERMISSIONS =
  "allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox " +
  "allow-modals allow-downloads";

/**
 * A session's VS Code beside its timeline. The frame has the session's own origin. This page is a
 * separate document whose key gives access to this session only, so other pages are plain links.
 */
export function WatchPage({ id }: { id: string }) {
  const session = sessions.value.get(id);
  const [isTimelineHidden, setTimelineHidden] = useState(false);
  const [isLoaded, setLoaded] = useState(false);
  const log = useLog(connection, { kind: "session", id });
  const demo = demoOf(id);
  useEffect(() => {
    document.title = session ? `${nameOf(session)} · Bascule` : "Bascule";
  }, [session]);
  if (connectionState.value === "refused")
    return (
      <main id="main">
        <SignInAgain />
      </main>
    );
  return (
    <>
      <Bar
        id={id}
        session={session}
        isDemo={demo !== null}
        isTimelineHidden={isTimelineHidden}
        onHide={setTimelineHidden}
      />
      <main id="main" class="watch" data-alone={isTimelineHidden || undefined}>
        <section class="watch-editor" aria-label="VS Code">
          <Editor id={id} session={session} isLoaded={isLoaded} onLoaded={() => setLoaded(true)} />
        </section>
        {!isTimelineHidden && (
          <aside class="watch-side" aria-label="Agent activity">
            <Banner />
            {demo && <DemoSteps demo={demo} session={session} isEditorLoaded={isLoaded} />}
            <h2>Timeline</h2>
            <Timeline log={log} />
          </aside>
        )}
      </main>
    </>
  );
}

function Bar(props: {
  id: string;
  session: Session | undefined;
  isDemo: boolean;
  isTimelineHidden: boolean;
  onHide: (isHidden: boolean) => void;
}) {
  const { session, isTimelineHidden } = props;
  return (
    <header class="bar">
      <a class="brand" href="/" aria-label="Bascule" title="All sessions and windows of this hub">
        <img src={new URL("./icon.svg", import.meta.url).href} alt="" width="22" height="22" />
        <span>Bascule</span>
      </a>
      <h1>
        {session && (
          <>
            <span>{nameOf(session)}</span> <Badge state={session.state} />
          </>
        )}
      </h1>
      <nav class="controls" aria-label="Session links">
        <a class="button" href="/sessions/new">
          <Icon name="plus" />
          <span>Start a session</span>
        </a>
        {!props.isDemo && (
          <a class="button" href={PLAY_LINK}>
            <Icon name="play" />
            <span>Watch a demo</span>
          </a>
        )}
        <a
          class="button quiet"
          href={`/vscode/${props.id}/`}
          target="_blank"
          rel="noopener"
          aria-label="Open VS Code in a new tab"
          title="Open VS Code in a new tab"
        >
          <Icon name="open" />
        </a>
        <button
          type="button"
          class="quiet"
          aria-pressed={!isTimelineHidden}
          aria-label="Timeline"
          title={isTimelineHidden ? "Show the timeline" : "Hide the timeline"}
          onClick={() => props.onHide(!isTimelineHidden)}
        >
          <Icon name="side" />
        </button>
      </nav>
    </header>
  );
}

/** VS Code when the session runs; otherwise the state of the session. */
function Editor(props: {
  id: string;
  session: Session | undefined;
  isLoaded: boolean;
  onLoaded: () => void;
}) {
  const { id, session } = props;
  if (!me.value) return <p class="loading">Connecting…</p>;
  if (!session)
    return <NotRunning title="Session not found" why="The session was removed." where="/" />;
  switch (session.state) {
    case "ready":
    case "paused":
      return (
        <>
          {!props.isLoaded && <p class="loading">Starting VS Code…</p>}
          <iframe
            src={`/vscode/${id}/`}
            title={`VS Code of ${nameOf(session)}`}
            // The URL redirects to the session's own origin, and this document's policy allows no
            // other. Without `*` the permissions would apply only to the origin before the
            // redirect.
            allow="clipboard-read *; clipboard-write *; fullscreen *"
            // No allow-top-navigation: the frame cannot navigate this tab.
            sandbox={FRAME_PERMISSIONS}
            onLoad={props.onLoaded}
          />
        </>
      );
    case "starting":
      return <p class="loading">Starting the session: {session.stage || "one moment"}…</p>;
    default:
      return (
        <NotRunning
          title={`The session is ${session.state}`}
          why={session.cause || "Its files are kept. Resume the session to continue."}
          where={`/sessions/${id}`}
        />
      );
  }
}

function NotRunning(props: { title: string; why: string; where: string }) {
  return (
    <EmptyState icon="sessions" title={props.title}>
      <p>{props.why}</p>
      <a class="button primary" href={props.where}>
        {props.where === "/" ? "All sessions" : "Go to the session"}
      </a>
    </EmptyState>
  );
}
