import { useEffect, useState } from "preact/hooks";
import { Failure } from "../hub/failure";
import type { Session } from "../hub/types";
import { apps, loads, me, measure, now, rest, sessions, connectionState } from "../state";
import { Icon, type IconName } from "../ui/icons";
import {
  ActionButton,
  Badge,
  EmptyState,
  Fact,
  Modal,
  ErrorNote,
  bytesText,
  sinceText,
} from "../ui/parts";
import { CreateSession } from "./create_session";
import { WatchDemo } from "./demo";

const MEASURE_INTERVAL_MS = 4000;

/** Measures CPU and memory of sessions while the view is mounted and the page is visible. */
export function useMeasures(): void {
  useEffect(() => {
    const measureIfVisible = (): void => {
      if (!document.hidden && connectionState.value === "live") measure().catch(() => undefined);
    };
    measureIfVisible();
    const clock = setInterval(measureIfVisible, MEASURE_INTERVAL_MS);
    return () => clearInterval(clock);
  }, []);
}

export function SessionsView(props: { isCreating?: boolean }) {
  const [isCreating, setCreating] = useState(props.isCreating ?? false);
  const [trouble, setTrouble] = useState("");
  useMeasures();
  const all = [...sessions.value.values()].reverse();
  const canCreate = (me.value?.spawners.length ?? 0) > 0;
  return (
    <>
      <header class="head">
        <h1>Sessions</h1>
        {canCreate && (
          <div class="controls">
            {all.length > 0 && <WatchDemo onTrouble={setTrouble} />}
            <button type="button" class="primary" onClick={() => setCreating(true)}>
              <Icon name="plus" />
              New session
            </button>
          </div>
        )}
      </header>
      {trouble && <ErrorNote what={trouble} again={() => setTrouble("")} />}
      {all.length === 0 && (
        <NoSessions canCreate={canCreate} create={() => setCreating(true)} onTrouble={setTrouble} />
      )}
      <ul class="cards">
        {all.map((session) => (
          <Card key={session.id} session={session} onTrouble={setTrouble} />
        ))}
      </ul>
      {isCreating && <CreateSession onClose={() => setCreating(false)} />}
    </>
  );
}

function NoSessions(props: {
  canCreate: boolean;
  create: () => void;
  onTrouble: (what: string) => void;
}) {
  if (!props.canCreate)
    return (
      <EmptyState icon="sessions" title="This hub cannot start sessions">
        <p>
          No spawner is available to start sandboxes. Set <code>spawners</code> in{" "}
          <code>bascule.toml</code>, or, on a machine that only you use, run{" "}
          <code>bascule serve --allow-unisolated</code>.
        </p>
      </EmptyState>
    );
  return (
    <EmptyState icon="sessions" title="No sessions yet">
      <p>A session is a workspace with its own sandbox, VS Code and apps.</p>
      <div class="offers">
        <button type="button" class="primary" onClick={props.create}>
          <Icon name="plus" />
          Start a session
        </button>
        <WatchDemo onTrouble={props.onTrouble} />
      </div>
      <p class="sub">In the demo, a scripted agent works in its own VS Code while you watch.</p>
    </EmptyState>
  );
}

function Card({ session, onTrouble }: { session: Session; onTrouble: (what: string) => void }) {
  const load = loads.value.get(session.id);
  const isReady = session.state === "ready";
  return (
    <li class="card">
      <div class="card-main">
        <a class="card-name" href={`/sessions/${session.id}`} data-inside>
          {nameOf(session)}
        </a>
        <Badge state={session.state} />
        <p class="card-note">
          {session.state === "starting" ? session.stage : session.cause.split("\n")[0]}
        </p>
      </div>
      <dl class="facts">
        <Fact label="Age" value={sinceText(session.created, now.value)} />
        <Fact label="Idle" value={sinceText(session.last_active, now.value)} />
        <Fact label="CPU" value={isReady ? coresText(load?.cores ?? null) : "–"} />
        <Fact label="Memory" value={isReady && load ? bytesText(load.memory) : "–"} />
      </dl>
      <Controls session={session} onTrouble={onTrouble} />
    </li>
  );
}

/** The actions on a session, and the states in which each is possible. */
const ACTIONS: readonly {
  verb: "pause" | "resume" | "stop";
  icon: IconName;
  label: string;
  states: readonly Session["state"][];
}[] = [
  { verb: "pause", icon: "pause", label: "Pause", states: ["ready"] },
  { verb: "resume", icon: "play", label: "Resume", states: ["paused", "stopped", "failed"] },
  { verb: "stop", icon: "stop", label: "Stop", states: ["ready", "paused", "starting"] },
];

/** Buttons for the actions that are possible in the session's current state. */
export function Controls(props: { session: Session; onTrouble: (what: string) => void }) {
  const { session, onTrouble } = props;
  const [isDeleting, setDeleting] = useState(false);
  const is = (...states: Session["state"][]): boolean => states.includes(session.state);
  return (
    <div class="controls">
      {is("ready", "paused") && (
        <a class="button" href={session.vscode_url} target="_blank" rel="noopener">
          <Icon name="code" />
          VS Code
        </a>
      )}
      {is("ready", "paused", "starting") && (
        <a
          class="button quiet"
          href={`/watch/${session.id}`}
          aria-label="VS Code beside the timeline"
          title="VS Code beside the timeline"
        >
          <Icon name="windows" />
        </a>
      )}
      {(apps.value.get(session.id) ?? []).map((app) => (
        <a
          key={app.n}
          class="button"
          href={app.url}
          target="_blank"
          rel="noopener"
          title={app.command}
        >
          <Icon name="open" />
          App :{app.port}
        </a>
      ))}
      {ACTIONS.filter(({ states }) => states.includes(session.state)).map(
        ({ verb, icon, label }) => (
          <ActionButton
            key={verb}
            icon={icon}
            label={label}
            isIconOnly
            class="quiet"
            act={() => rest.act(session.id, verb)}
            onTrouble={onTrouble}
          />
        ),
      )}
      <button
        type="button"
        class="quiet danger"
        aria-label="Delete"
        title="Delete"
        onClick={() => setDeleting(true)}
      >
        <Icon name="trash" />
      </button>
      {isDeleting && (
        <DeleteSession session={session} onClose={() => setDeleting(false)} onTrouble={onTrouble} />
      )}
    </div>
  );
}

function DeleteSession(props: {
  session: Session;
  onClose: () => void;
  onTrouble: (what: string) => void;
}) {
  const { session, onClose } = props;
  const [refusal, setRefusal] = useState("");
  const remove = async (): Promise<void> => {
    try {
      await rest.remove(session.id, refusal !== "");
      onClose();
    } catch (error) {
      if (!(error instanceof Failure && error.code === "fork.not_merged")) {
        onClose();
        throw error;
      }
      setRefusal(error.message);
    }
  };
  return (
    <Modal title={`Delete ${nameOf(session)}?`} onClose={onClose}>
      <p>
        This stops its processes and deletes its files.{" "}
        {session.workspace.kind === "folder" ? "The folder on the hub's machine is kept." : ""} This
        cannot be undone.
      </p>
      {refusal && <ErrorNote what={refusal} />}
      <div class="modal-end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <ActionButton
          label={refusal ? "Delete anyway" : "Delete"}
          class="primary danger"
          act={remove}
          onTrouble={props.onTrouble}
        />
      </div>
    </Modal>
  );
}

export function nameOf(session: Session): string {
  return session.name || session.id;
}

export function coresText(count: number | null): string {
  return count === null ? "…" : `${Math.round(count * 100)} %`;
}
