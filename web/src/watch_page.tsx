import { useEffect, useState } from "preact/hooks";
import { Banner, SignInAgain } from "./app";
import type { Session } from "./hub/types";
import { connection, me, sessions, connectionState } from "./state";
import { Timeline, useLog } from "./timeline/timeline";
import { Icon } from "./ui/icons";
import { Badge, EmptyState } from "./ui/parts";
import { DemoSteps, demoOf, PLAY } from "./views/demo";
import { nameOf } from "./views/sessions";

const SANDBOX =
  "allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox " +
  "allow-modals allow-downloads";

/**
 * A session's VS Code beside what is done in it. The frame has the session's own origin. This is
 * still a document of its own, with a key that is good for this session alone: all else is behind
 * links.
 */
export function WatchPage({ id }: { id: string }) {
  const session = sessions.value.get(id);
  const [isAlone, setAlone] = useState(false);
  const [isDrawn, setDrawn] = useState(false);
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
      <Bar id={id} session={session} isDemo={demo !== null} isAlone={isAlone} alone={setAlone} />
      <main id="main" class="watch" data-alone={isAlone || undefined}>
        <section class="watch-editor" aria-label="VS Code">
          <Editor id={id} session={session} isDrawn={isDrawn} drawn={() => setDrawn(true)} />
        </section>
        {!isAlone && (
          <aside class="watch-side" aria-label="What is done here">
            <Banner />
            {demo && <DemoSteps demo={demo} session={session} isDrawn={isDrawn} />}
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
  isAlone: boolean;
  alone: (is: boolean) => void;
}) {
  const { session, isAlone } = props;
  return (
    <header class="bar">
      <a class="brand" href="/" aria-label="Bascule" title="Everything this hub has">
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
      <nav class="controls" aria-label="Elsewhere">
        <a class="button" href="/sessions/new">
          <Icon name="plus" />
          <span>Start a session</span>
        </a>
        {!props.isDemo && (
          <a class="button" href={PLAY}>
            <Icon name="play" />
            <span>Watch a demo</span>
          </a>
        )}
        <a
          class="button quiet"
          href={`/vscode/${props.id}/`}
          target="_blank"
          rel="noopener"
          aria-label="VS Code in a tab of its own"
          title="VS Code in a tab of its own"
        >
          <Icon name="open" />
        </a>
        <button
          type="button"
          class="quiet"
          aria-pressed={!isAlone}
          aria-label="Timeline"
          title={isAlone ? "Show the timeline" : "Hide the timeline"}
          onClick={() => props.alone(!isAlone)}
        >
          <Icon name="side" />
        </button>
      </nav>
    </header>
  );
}

/** VS Code once there is one to show; before, how far its session is. */
function Editor(props: {
  id: string;
  session: Session | undefined;
  isDrawn: boolean;
  drawn: () => void;
}) {
  const { id, session } = props;
  if (!me.value) return <p class="loading">Connecting…</p>;
  if (!session) return <NotRunning title="The session is gone" why="It was removed." where="/" />;
  switch (session.state) {
    case "ready":
    case "paused":
      return (
        <>
          {!props.isDrawn && <p class="loading">VS Code starts…</p>}
          <iframe
            src={`/vscode/${id}/`}
            title={`VS Code of ${nameOf(session)}`}
            // The frame ends at the session's own origin, and the policy of this document lets
            // it go nowhere else; without `*` these would be for the origin it starts from.
            allow="clipboard-read *; clipboard-write *; fullscreen *"
            // It cannot lead this tab away.
            sandbox={SANDBOX}
            onLoad={props.drawn}
          />
        </>
      );
    case "starting":
      return <p class="loading">The session starts: {session.stage || "one moment"}…</p>;
    default:
      return (
        <NotRunning
          title={`The session is ${session.state}`}
          why={session.cause || "Its files are kept. Resume it to go on."}
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
        {props.where === "/" ? "All sessions" : "To the session"}
      </a>
    </EmptyState>
  );
}
