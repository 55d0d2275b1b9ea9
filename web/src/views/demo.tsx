import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { Demo, Session } from "../hub/types";
import { connection, demo, me, rest } from "../state";
import { ActionButton, EmptyState, ErrorNote } from "../ui/parts";

/** Link for pages that may not start the demo themselves: opens `/demo`, which starts it. */
export const PLAY_LINK = "/demo#play";

/** Starts the demo and opens the page that shows it. */
async function playAndWatch(): Promise<void> {
  const { session_id: id } = await rest.playDemo();
  location.assign(`/watch/${id}`);
}

export function WatchDemo(props: { isPrimary?: boolean; onTrouble: (what: string) => void }) {
  return (
    <ActionButton
      icon="play"
      label="Watch a demo"
      class={props.isPrimary ? "primary" : ""}
      act={playAndWatch}
      onTrouble={props.onTrouble}
    />
  );
}

/**
 * Whether the user clicked "Watch a demo" on another page of this hub. A link on another site must
 * not start the demo; its referrer is another site or empty.
 */
function wasStartedByClick(): boolean {
  return location.hash === "#play" && document.referrer.startsWith(`${location.origin}/`);
}

/** Describes the demo and starts it on request. */
export function DemoView() {
  const [trouble, setTrouble] = useState("");
  const canPlay = (me.value?.spawners.length ?? 0) > 0;
  useEffect(() => {
    if (!canPlay || !wasStartedByClick()) return;
    history.replaceState(null, "", "/demo"); // so that "Back" does not start the demo again
    playAndWatch().catch((error: unknown) => setTrouble(messageOf(error)));
  }, [canPlay]);
  return (
    <>
      <header class="head">
        <h1>Demo</h1>
      </header>
      {trouble && <ErrorNote what={trouble} />}
      <EmptyState icon="play" title="An agent at work in VS Code">
        <p>
          A scripted agent writes a small program with a bug, runs it, reads the problems that VS
          Code reports, fixes the bug and runs the program again. Then a command is approved, a
          change is undone in a review, and a deleted file is restored. The agent works in a new
          session with a real VS Code while you watch. The demo takes one to two minutes; afterwards
          you can look around or remove it.
        </p>
        {canPlay ? (
          <WatchDemo isPrimary onTrouble={setTrouble} />
        ) : (
          <p>
            This hub cannot start sessions, so it cannot play the demo. Run{" "}
            <code>bascule doctor</code> to see what is missing.
          </p>
        )}
      </EmptyState>
    </>
  );
}

type StepState = "done" | "now" | "failed" | "later";

/** Progress of the demo, from the start of its session to the agent's last message. */
export function DemoSteps(props: {
  demo: Demo;
  session: Session | undefined;
  isEditorLoaded: boolean;
}) {
  const { demo: shown } = props;
  const [trouble, setTrouble] = useState("");
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    // Scroll only the list: `scrollIntoView` would also scroll its parents.
    if (list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [shown.said.length, shown.phase]);
  const hasFailed = shown.phase === "failed";
  const isReady = shown.phase !== "starting" && props.session?.state === "ready";
  const begun = shown.said.length > 0;
  const stages: [string, StepState][] = [
    ["A session starts", isReady || begun ? "done" : hasFailed ? "failed" : "now"],
    ["VS Code opens in it", begun ? "done" : !isReady ? "later" : hasFailed ? "failed" : "now"],
  ];
  const last = shown.said.findLastIndex((each) => each.kind === "step");
  return (
    <section class="demo" aria-label="The demo">
      <ol ref={list} tabIndex={0} aria-live="polite">
        {shown.phase !== "resting" &&
          stages.map(([text, state]) => (
            <Step key={text} text={stepText(text, state, props)} state={state} />
          ))}
        {shown.said.map((each, index) =>
          each.kind === "seen" ? (
            <li key={index} class="seen">
              <pre>{each.text}</pre>
            </li>
          ) : (
            <Step
              key={index}
              text={each.kind === "done" ? `The agent ${each.text}.` : `The agent ${each.text}`}
              state={index < last || shown.phase === "done" ? "done" : hasFailed ? "failed" : "now"}
            />
          ),
        )}
      </ol>
      {shown.phase === "resting" && <p>The demo is not running.</p>}
      {hasFailed && <ErrorNote what={shown.cause} />}
      {trouble && <ErrorNote what={trouble} />}
      <DemoControls shown={shown} onTrouble={setTrouble} />
    </section>
  );
}

function stepText(
  text: string,
  state: StepState,
  props: { session: Session | undefined; isEditorLoaded: boolean },
): string {
  if (state !== "now") return text;
  const { session } = props;
  if (session?.state === "starting" && session.stage) return `${text}: ${session.stage}`;
  return props.isEditorLoaded ? `${text}: waiting for the Bascule extension` : text;
}

function Step({ text, state }: { text: string; state: StepState }) {
  return (
    <li data-standing={state} aria-current={state === "now" ? "step" : undefined}>
      <span class="mark" aria-hidden="true">
        {state === "now" ? (
          <i class="spinner" />
        ) : state === "done" ? (
          "✓"
        ) : state === "failed" ? (
          "✗"
        ) : (
          "·"
        )}
      </span>
      {text}
    </li>
  );
}

function DemoControls(props: { shown: Demo; onTrouble: (what: string) => void }) {
  const { phase } = props.shown;
  const isOver = phase === "done" || phase === "failed" || phase === "resting";
  const remove = async (): Promise<void> => {
    await connection.demo("remove");
    location.assign("/");
  };
  return (
    <div class="controls">
      {phase === "playing" && (
        <ActionButton
          icon="skip"
          label="Skip the pause"
          act={() => connection.demo("skip")}
          onTrouble={props.onTrouble}
        />
      )}
      {isOver && (
        <ActionButton
          icon="play"
          label={phase === "resting" ? "Play" : "Play again"}
          class="primary"
          act={() => connection.demo("play")}
          onTrouble={props.onTrouble}
        />
      )}
      <ActionButton
        icon="trash"
        label="Clean up"
        class="danger"
        act={remove}
        onTrouble={props.onTrouble}
      />
    </div>
  );
}

/** The demo, if it runs in this session. */
export function demoOf(id: string): Demo | null {
  return demo.value?.session_id === id ? demo.value : null;
}
