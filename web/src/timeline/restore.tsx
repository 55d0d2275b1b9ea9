import { useState } from "preact/hooks";
import { ActionButton, ErrorNote } from "../ui/parts";
import type { Restored } from "../hub/types";

/** Undoes what an action changed; with `isDryRun`, only reports what it would do. */
export type RestoreCheckpoint = (checkpoint: number, isDryRun: boolean) => Promise<Restored>;

/** Offers to undo what an action changed. Shows all files and conflicts before it does. */
export function Restore(props: { checkpoint: number; restore: RestoreCheckpoint }) {
  const { checkpoint, restore } = props;
  const [plan, setPlan] = useState<Restored | null>(null);
  const [done, setDone] = useState<Restored | null>(null);
  const [trouble, setTrouble] = useState("");
  const begin = async (): Promise<void> => {
    setTrouble("");
    setDone(null);
    setPlan(await restore(checkpoint, true));
  };
  const finish = async (): Promise<void> => {
    setTrouble("");
    setDone(await restore(checkpoint, false));
    setPlan(null);
  };
  return (
    <section class="restore" aria-label={`Checkpoint ${checkpoint}`}>
      {trouble && <ErrorNote what={trouble} />}
      {!plan && <ActionButton label="Restore…" act={begin} onTrouble={setTrouble} />}
      {done && <Paths found={done} words={["Restored", "Removed", "Left alone"]} />}
      {plan && (
        <>
          <Paths found={plan} words={["Will be restored", "Will be removed", "Left alone"]} />
          {plan.restored.length + plan.removed.length > 0 && (
            <ActionButton label="Restore" act={finish} onTrouble={setTrouble} />
          )}
          <button type="button" onClick={() => setPlan(null)}>
            Cancel
          </button>
        </>
      )}
    </section>
  );
}

function Paths({ found, words }: { found: Restored; words: [string, string, string] }) {
  const conflicts = found.conflicts.map(({ path, reason }) => `${path}: ${reason}`);
  const lists = [found.restored, found.removed, conflicts];
  if (lists.every((list) => list.length === 0))
    return <p>Everything is as it was before this action.</p>;
  return (
    <>
      {lists.map(
        (list, index) =>
          list.length > 0 && (
            <div key={index}>
              <h3>{words[index]}</h3>
              <ul>
                {list.map((text) => (
                  <li key={text}>{text}</li>
                ))}
              </ul>
            </div>
          ),
      )}
    </>
  );
}
