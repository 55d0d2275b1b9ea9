import { useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import { go } from "../router";
import { me, rest } from "../state";
import { Modal, ErrorNote } from "../ui/parts";
import { requestBody, type NewSession } from "./session_form";

const START: NewSession = {
  name: "",
  workspace: "empty",
  url: "",
  ref: "",
  network: "",
  domains: "",
  memory: "2",
  cpus: "2",
  spawner: "",
  variables: "",
  secrets: "",
};

/** A form whose every field may be left as it is. */
export function CreateSession({ onClose }: { onClose: () => void }) {
  const [wanted, setWanted] = useState(START);
  const [trouble, setTrouble] = useState("");
  const [isBusy, setBusy] = useState(false);
  const set = (name: keyof NewSession) => (event: { currentTarget: { value: string } }) =>
    setWanted({ ...wanted, [name]: event.currentTarget.value });
  const create = async (): Promise<void> => {
    setBusy(true);
    try {
      const session = await rest.create(requestBody(wanted));
      onClose();
      go(`/sessions/${session.id}`);
    } catch (error) {
      setTrouble(messageOf(error));
      setBusy(false);
    }
  };
  const spawners = me.value?.spawners ?? [];
  const ways = me.value?.egress ?? [];
  return (
    <Modal title="New session" onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <label>
          Name
          <input
            value={wanted.name}
            onInput={set("name")}
            placeholder="For you; may be left empty"
          />
        </label>
        <label>
          Workspace
          <select value={wanted.workspace} onChange={set("workspace")}>
            <option value="empty">Empty</option>
            <option value="git">Clone a Git repository</option>
          </select>
        </label>
        {wanted.workspace === "git" && (
          <>
            <label>
              Address
              <input
                required
                value={wanted.url}
                onInput={set("url")}
                placeholder="https://github.com/you/project"
              />
            </label>
            <label>
              Branch, tag or commit
              <input value={wanted.ref} onInput={set("ref")} placeholder="Its default branch" />
            </label>
          </>
        )}
        <label>
          Network
          <select value={wanted.network} onChange={set("network")}>
            <option value="">
              {wanted.workspace === "git" ? "What it is cloned from" : "None"}
            </option>
            {ways.includes("proxy") && <option value="proxy">Only some names</option>}
            {ways.includes("open") && <option value="open">Open</option>}
          </select>
        </label>
        {wanted.network === "proxy" && (
          <label>
            Names it may reach
            <input
              required
              value={wanted.domains}
              onInput={set("domains")}
              placeholder="pypi.org, files.pythonhosted.org"
            />
          </label>
        )}
        <details>
          <summary>More</summary>
          <div class="form">
            <div class="pair">
              <label>
                Memory, GB
                <input
                  type="number"
                  min="0.25"
                  step="0.25"
                  value={wanted.memory}
                  onInput={set("memory")}
                />
              </label>
              <label>
                CPUs
                <input
                  type="number"
                  min="0.25"
                  step="0.25"
                  value={wanted.cpus}
                  onInput={set("cpus")}
                />
              </label>
            </div>
            {spawners.length > 1 && (
              <label>
                Runs in
                <select value={wanted.spawner} onChange={set("spawner")}>
                  {spawners.map((kind, index) => (
                    <option key={kind} value={index === 0 ? "" : kind}>
                      {kind}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <label>
              Variables, one a line
              <textarea
                rows={2}
                value={wanted.variables}
                onInput={set("variables")}
                placeholder="NAME=value"
              />
            </label>
            <label>
              Secrets, which are never shown again
              <textarea
                rows={2}
                value={wanted.secrets}
                onInput={set("secrets")}
                placeholder="TOKEN=value"
              />
            </label>
          </div>
        </details>
        {trouble && <ErrorNote what={trouble} />}
        <div class="modal-end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button class="primary" disabled={isBusy}>
            Start
          </button>
        </div>
      </form>
    </Modal>
  );
}
