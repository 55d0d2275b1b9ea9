import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { ReviewFile, ReviewHunks, ReviewList, ReviewTarget } from "../hub/types";
import { connectionState, me, rest, reviewCounts } from "../state";
import { ActionButton, ErrorNote } from "../ui/parts";
import { byAgent, countText, filesText } from "./review_text";

type Answer = (answer: "keep" | "undo", files: ReviewTarget[]) => Promise<void>;

/**
 * The changes of agents in a window that nobody has reviewed yet, as the window lists them. Only
 * for persons: no agent may review its own changes.
 */
export function Review({ window }: { window: string }) {
  const [list, setList] = useState<ReviewList | null>(null);
  const [trouble, setTrouble] = useState("");
  const isPerson = me.value?.scope === "admin" || me.value?.scope === "member";
  const isLive = connectionState.value === "live";
  const count = reviewCounts.value.get(window);
  useEffect(() => {
    if (!isPerson || !isLive) return;
    let isWanted = true;
    rest.review(window).then(
      (found) => isWanted && setList(found),
      (error: unknown) => isWanted && setTrouble(messageOf(error)),
    );
    return () => {
      isWanted = false;
    };
  }, [window, isPerson, isLive, count]);
  const answer: Answer = async (word, files) => {
    setTrouble("");
    await rest.answerReview(window, word, files);
  };
  if (!isPerson || !list || (list.files.length === 0 && !trouble)) return null;
  return (
    <section class="question review" aria-label="Changes to review">
      <header>
        <h2>Changes to review</h2>
        {list.files.length > 0 && <AllFiles list={list} answer={answer} onTrouble={setTrouble} />}
      </header>
      {trouble && <ErrorNote what={trouble} />}
      {byAgent(list.files).map(([agent, files]) => (
        <section key={agent} aria-label={`Changes of ${agent}`}>
          <h3>
            {agent} <span class="sub">{filesText(files)}</span>
          </h3>
          <ul>
            {files.map((file) => (
              <File key={file.id} {...{ window, file, answer, onTrouble: setTrouble }} />
            ))}
          </ul>
        </section>
      ))}
      {list.more > 0 && <p>{list.more} more files are listed in the window only.</p>}
    </section>
  );
}

/** Keeps or undoes all listed files. Undo asks first. */
function AllFiles(props: { list: ReviewList; answer: Answer; onTrouble: (what: string) => void }) {
  const { list, answer, onTrouble } = props;
  const [isAsking, setAsking] = useState(false);
  const count = `${list.files.length} ${list.files.length === 1 ? "file" : "files"}`;
  const all = list.files.map(targetOf);
  if (isAsking)
    return (
      <div class="controls">
        <ActionButton
          label={`Undo all changes in ${count}`}
          class="danger"
          act={() => answer("undo", all).finally(() => setAsking(false))}
          onTrouble={onTrouble}
        />
        <button type="button" onClick={() => setAsking(false)}>
          Cancel
        </button>
      </div>
    );
  return (
    <div class="controls">
      <ActionButton label="Keep all" act={() => answer("keep", all)} onTrouble={onTrouble} />
      <button type="button" onClick={() => setAsking(true)}>
        Undo all…
      </button>
    </div>
  );
}

function File(props: {
  window: string;
  file: ReviewFile;
  answer: Answer;
  onTrouble: (what: string) => void;
}) {
  const { window, file, answer, onTrouble } = props;
  const [shown, setShown] = useState<{ version: string; hunks: ReviewHunks } | null>(null);
  const target = targetOf(file);
  const isOpen = shown?.version === file.version; // another version needs another request
  const show = async (): Promise<void> => {
    setShown(isOpen ? null : { version: file.version, hunks: await rest.hunks(window, target) });
  };
  return (
    <li aria-label={file.name}>
      <div class="review-file">
        <code>{file.name}</code> <span class="sub">{countText(file)}</span>
        <div class="controls">
          <ActionButton
            label={isOpen ? "Hide lines" : "Show lines"}
            act={show}
            onTrouble={onTrouble}
          />
          <ActionButton label="Keep" act={() => answer("keep", [target])} onTrouble={onTrouble} />
          <ActionButton
            label="Undo"
            class="danger"
            act={() => answer("undo", [target])}
            onTrouble={onTrouble}
          />
        </div>
      </div>
      {isOpen && <Hunks {...{ file, hunks: shown.hunks, answer, onTrouble }} />}
    </li>
  );
}

function Hunks(props: {
  file: ReviewFile;
  hunks: ReviewHunks;
  answer: Answer;
  onTrouble: (what: string) => void;
}) {
  const { file, hunks, answer, onTrouble } = props;
  return (
    <>
      {hunks.hunks.map((hunk, index) => (
        <section key={index} class="hunk" aria-label={`Change at line ${hunk.line}`}>
          <pre class="diff" tabIndex={0} aria-label="Changed lines">
            {signedLines("-", hunk.removed)}
            {signedLines("+", hunk.added)}
          </pre>
          {!hunk.is_whole && <p>Not all of this change is shown. The window shows the rest.</p>}
          {file.hunks > 1 && (
            <div class="controls">
              {(["keep", "undo"] as const).map((word) => (
                <ActionButton
                  key={word}
                  label={word === "keep" ? "Keep change" : "Undo change"}
                  class={word === "undo" ? "danger" : ""}
                  act={() => answer(word, [{ ...targetOf(file), hunk: index }])}
                  onTrouble={onTrouble}
                />
              ))}
            </div>
          )}
        </section>
      ))}
      {hunks.more > 0 && <p>{hunks.more} more changes are shown in the window only.</p>}
    </>
  );
}

function signedLines(sign: "-" | "+", lines: readonly string[]) {
  return lines.map((line, index) => (
    <span key={`${sign}${index}`} data-sign={sign}>
      {sign} {line}
      {"\n"}
    </span>
  ));
}

function targetOf({ id, version }: ReviewFile): ReviewTarget {
  return { file: id, version };
}
