import { useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { Window } from "../hub/types";
import { me, now, rest, windows } from "../state";
import { Icon } from "../ui/icons";
import { Badge, EmptyState, Fact, Modal, ErrorNote, sinceText } from "../ui/parts";

export function WindowsView() {
  const [isPairing, setPairing] = useState(false);
  const mayPair = me.value?.scope === "admin" || me.value?.scope === "member";
  return (
    <>
      <header class="head">
        <h1>Windows</h1>
        {mayPair && (
          <button type="button" class="primary" onClick={() => setPairing(true)}>
            <Icon name="plus" />
            Connect a window
          </button>
        )}
      </header>
      {windows.value.length === 0 && (
        <EmptyState icon="windows" title="No VS Code window is connected">
          <p>
            Install the Bascule extension in VS Code, then connect the window with a pairing code.
            Agents that you allow can work in it while you watch.
          </p>
          {mayPair && (
            <button type="button" class="primary" onClick={() => setPairing(true)}>
              Get a code
            </button>
          )}
        </EmptyState>
      )}
      <ul class="cards">
        {windows.value.map((window) => (
          <li class="card" key={window.connection_id}>
            <div class="card-main">
              <a class="card-name" href={`/windows/${window.connection_id}`} data-inside>
                {titleOf(window)}
              </a>
              <Badge state={window.status} />
              <p class="card-note">{foldersOf(window)}</p>
            </div>
            <dl class="facts">
              <Fact label="VS Code" value={window.vscode_version || "–"} />
              <Fact label="Extension" value={window.extension_version || "–"} />
              <Fact label="Where" value={window.remote} />
              <Fact label="Seen" value={sinceText(window.last_heartbeat, now.value) || "–"} />
            </dl>
          </li>
        ))}
      </ul>
      {isPairing && <Pair onClose={() => setPairing(false)} />}
    </>
  );
}

export function titleOf(window: Window): string {
  return window.name || window.folders[0]?.name || "Empty window";
}

export function foldersOf(window: Window): string {
  return window.folders.map((folder) => folder.path).join(", ") || "No folder is open";
}

function Pair({ onClose }: { onClose: () => void }) {
  const [code, setCode] = useState<{ code: string; link: string; expires: string } | null>(null);
  const [trouble, setTrouble] = useState("");
  const [earlierIds] = useState(() => new Set(windows.value.map((each) => each.connection_id)));
  const connected = windows.value.find((each) => !earlierIds.has(each.connection_id));
  const requestCode = (): void => {
    setTrouble("");
    rest.pair().then(setCode, (error: unknown) => setTrouble(messageOf(error)));
  };
  if (!code && !trouble) requestCode();
  const left = code ? Math.max(0, (Date.parse(code.expires) - now.value) / 60_000) : 0;
  return (
    <Modal title="Connect a window" onClose={onClose}>
      {trouble && <ErrorNote what={trouble} again={requestCode} />}
      {connected ? (
        <p class="good">
          <b>{titleOf(connected)}</b> is connected.
        </p>
      ) : (
        code && (
          <>
            <p>
              In VS Code run <b>Bascule: Connect to a Hub</b> and enter this code, or use the link
              below. The code works once and expires in {Math.ceil(left)} minutes.
            </p>
            <p class="code">{`${code.code.slice(0, 4)} ${code.code.slice(4)}`}</p>
            <p>
              <a class="button" href={code.link}>
                Open in VS Code
              </a>
            </p>
          </>
        )
      )}
      <div class="modal-end">
        <button type="button" class="primary" onClick={onClose}>
          {connected ? "Done" : "Close"}
        </button>
      </div>
    </Modal>
  );
}
