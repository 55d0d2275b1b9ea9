import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { Fork, ForkChange, Forks, Merged, Session } from "../hub/types";
import { rest, sessions } from "../state";
import { ActionButton, Badge, EmptyState, ErrorNote } from "../ui/parts";

const MAX_SHOWN_PATHS = 100;
const CHANGE_LETTERS = { added: "A", changed: "M", removed: "D" } as const;

/** The forks of a session side by side: the changes of each, and paths that several changed. */
export function ForksView({ session }: { session: Session }) {
  const source = session.workspace.fork_of || session.id;
  const [found, setFound] = useState<Forks | null>(null);
  const [trouble, setTrouble] = useState("");
  const load = async (): Promise<void> => {
    try {
      setFound(await rest.forks(source));
      setTrouble("");
    } catch (error) {
      setTrouble(messageOf(error));
    }
  };
  // The hub reports when a session is used, so the list needs no timer.
  const used = [...sessions.value.values()]
    .filter((each) => each.id === source || each.workspace.fork_of === source)
    .map((each) => `${each.id} ${each.state} ${each.last_active}`)
    .join();
  useEffect(() => void load(), [source, used]);
  if (!found && !trouble) return <p>Comparing files…</p>;
  return (
    <section class="forks">
      {trouble && <ErrorNote what={trouble} again={() => void load()} />}
      <div class="controls">
        <ActionButton
          icon="plus"
          label="New fork"
          act={async () => {
            await rest.fork(source);
            await load();
          }}
          onTrouble={setTrouble}
        />
        <ActionButton label="Compare again" act={load} onTrouble={setTrouble} />
        {found && <Overlap found={found} />}
      </div>
      {found && found.forks.length === 0 && (
        <EmptyState icon="sessions" title="No forks">
          <p>A fork is a session with a copy of these files, for another agent.</p>
        </EmptyState>
      )}
      {found && found.forks.length > 0 && (
        <div class="fork-columns">
          <article>
            <h3>This session</h3>
            <Changes found={found} session={found} />
          </article>
          {found.forks.map((fork) => (
            <Column key={fork.id} fork={fork} found={found} onMerged={load} />
          ))}
        </div>
      )}
    </section>
  );
}

/** The first path that several sessions changed, with the names of these sessions. */
function Overlap({ found }: { found: Forks }) {
  const [first] = found.overlaps;
  if (!first) return null;
  const names = first.sessions.map((id) => nameIn(found, id)).join(", ");
  const more = found.overlap_count > 1 ? ` and ${found.overlap_count - 1} more` : "";
  return <Badge state="limited" label={`Overlap: ${first.path} (${names})${more}`} />;
}

function Column(props: { fork: Fork; found: Forks; onMerged: () => Promise<void> }) {
  const { fork, found } = props;
  const [plan, setPlan] = useState<Merged | null>(null);
  const [done, setDone] = useState<Merged | null>(null);
  const [trouble, setTrouble] = useState("");
  const finish = async (): Promise<void> => {
    setDone(await rest.merge(fork.id, false));
    setPlan(null);
    await props.onMerged();
  };
  return (
    <article aria-label={nameIn(found, fork.id)}>
      <h3>
        <a href={`/sessions/${fork.id}`} data-inside>
          {nameIn(found, fork.id)}
        </a>{" "}
        <Badge state={fork.state} />
      </h3>
      {trouble && <ErrorNote what={trouble} again={() => setTrouble("")} />}
      <Changes found={found} session={fork} />
      {done && <Results merged={done} title="Merged" />}
      {plan ? (
        <>
          <Results merged={plan} title="Will be merged" />
          <ActionButton label="Merge" class="primary" act={finish} onTrouble={setTrouble} />{" "}
          <button type="button" onClick={() => setPlan(null)}>
            Cancel
          </button>
        </>
      ) : (
        fork.count > 0 && (
          <ActionButton
            label="Merge…"
            act={async () => setPlan(await rest.merge(fork.id, true))}
            onTrouble={setTrouble}
          />
        )
      )}
    </article>
  );
}

function Changes({
  found,
  session,
}: {
  found: Forks;
  session: { count: number; changes: ForkChange[] };
}) {
  if (session.count === 0) return <p class="sub">Nothing changed.</p>;
  const shared = new Set(found.overlaps.map(({ path }) => path));
  const more = session.count - Math.min(session.changes.length, MAX_SHOWN_PATHS);
  return (
    <ul>
      {session.changes.slice(0, MAX_SHOWN_PATHS).map(({ path, change }) => (
        <li key={path} class={shared.has(path) ? "shared" : ""}>
          <abbr title={change}>{CHANGE_LETTERS[change]}</abbr> {path}
          {shared.has(path) && <em> changed in two</em>}
        </li>
      ))}
      {more > 0 && <li>and {more} more</li>}
    </ul>
  );
}

function Results({ merged, title }: { merged: Merged; title: string }) {
  const shown = merged.results.filter(({ outcome }) => outcome !== "same");
  return (
    <>
      <h4>{title}</h4>
      <ul>
        {shown.slice(0, MAX_SHOWN_PATHS).map(({ path, outcome, reason }) => (
          <li key={path} class={outcome === "conflict" ? "shared" : ""}>
            {outcome} {path}
            {reason && `: ${reason}`}
          </li>
        ))}
        {shown.length > MAX_SHOWN_PATHS && <li>and {shown.length - MAX_SHOWN_PATHS} more</li>}
      </ul>
    </>
  );
}

function nameIn(found: Forks, id: string): string {
  if (id === found.id) return "this session";
  return found.forks.find((fork) => fork.id === id)?.name || id;
}
