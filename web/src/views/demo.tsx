import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { Demo, Session } from "../hub/types";
import { connection, demo, me, rest } from "../state";
import { ActionButton, EmptyState, ErrorNote } from "../ui/parts";

/** Where a page that may not start a demo itself leads to, to have one started at once. */
export const PLAY = "/demo#play";

/** Have the demo played and go where it is shown. */
async function watch(): Promise<void> {
  const { session_id: id } = await rest.playDemo();
  location.assign(`/watch/${id}`);
}

export function WatchDemo(props: { isPrimary?: boolean; onTrouble: (what: string) => void }) {
  return (
    <ActionButton
      icon="play"
      label="Watch a demo"
      class={props.isPrimary ? "primary" : ""}
      act={watch}
      onTrouble={props.onTrouble}
    />
  );
}

/**
 * Whether somebody pressed "Watch a demo" on another page of this hub. A link on any other site
 * starts nothing: it has another referrer, or none.
 */
function isAsked(): boolean {
  return location.hash === "#play" && document.referrer.startsWith(`${location.origin}/`);
}

/** What the demo is, for whoever comes by a link: it begins when they say so. */
export function DemoView() {
  const [trouble, setTrouble] = useState("");
  const canPlay = (me.value?.spawners.length ?? 0) > 0;
  useEffect(() => {
    if (!canPlay || !isAsked()) return;
    history.replaceState(null, "", "/demo"); // "Back" leads here, and must not start it again
    watch().catch((error: unknown) => setTrouble(messageOf(error)));
  }, [canPlay]);
  return (
    <>
      <header class="head">
        <h1>A demo</h1>
      </header>
      {trouble && <ErrorNote what={trouble} />}
      <EmptyState icon="play" title="An agent at work in VS Code">
        <p>
          A scripted agent writes a small program with a mistake in it, runs it, reads what VS Code
          says of it, mends it and runs it again: in a session made for that, with a real VS Code,
          as you watch. It takes a minute; afterwards you can look around or have it all removed.
        </p>
        {canPlay ? (
          <WatchDemo isPrimary onTrouble={setTrouble} />
        ) : (
          <p>
            This hub starts no sessions, so there is nowhere to play it. <code>bascule doctor</code>{" "}
            says what the machine lacks.
          </p>
        )}
      </EmptyState>
    </>
  );
}

type StepState = "done" | "now" | "failed" | "later";

/** How far the demo is, from the start of its session to what its agent says at the end. */
export function DemoSteps(props: { demo: Demo; session: Session | undefined; isDrawn: boolean }) {
  const { demo: shown } = props;
  const [trouble, setTrouble] = useState("");
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    // Only the list: `scrollIntoView` would move whatever is around it as well.
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
          stages.map(([text, standing]) => (
            <Step key={text} text={detailed(text, standing, props)} standing={standing} />
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
              standing={
                index < last || shown.phase === "done" ? "done" : hasFailed ? "failed" : "now"
              }
            />
          ),
        )}
      </ol>
      {shown.phase === "resting" && <p>The demo is not being played.</p>}
      {hasFailed && <ErrorNote what={shown.cause} />}
      {trouble && <ErrorNote what={trouble} />}
      <DemoControls shown={shown} onTrouble={setTrouble} />
    </section>
  );
}

function detailed(
  text: string,
  standing: StepState,
  props: { session: Session | undefined; isDrawn: boolean },
): string {
  if (standing !== "now") return text;
  const state = props.session;
  if (state?.state === "starting" && state.stage) return `${text}: ${state.stage}`;
  return props.isDrawn ? `${text}: waiting for its extension` : text;
}

function Step({ text, standing }: { text: string; standing: StepState }) {
  return (
    <li data-standing={standing} aria-current={standing === "now" ? "step" : undefined}>
      <span class="mark" aria-hidden="true">
        {standing === "now" ? (
          <i class="spinner" />
        ) : standing === "done" ? (
          "✓"
        ) : standing === "failed" ? (
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

/** The demo, where this session is the one it plays in. */
export function demoOf(id: string): Demo | null {
  return demo.value?.session_id === id ? demo.value : null;
}
