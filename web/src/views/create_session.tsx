import type { InputHTMLAttributes } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import { go } from "../router";
import { me, rest } from "../state";
import { Modal, ErrorNote } from "../ui/parts";
import { requestBody, type NewSession } from "./session_form";

const DEFAULTS: NewSession = {
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

const AMOUNT_INPUT = { type: "number", min: "0.25", step: "0.25" } as const;

/** The form for a new session. Every field has a usable default. */
export function CreateSession({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState(DEFAULTS);
  const [trouble, setTrouble] = useState("");
  const [isBusy, setBusy] = useState(false);
  const set = (name: keyof NewSession) => (event: { currentTarget: { value: string } }) =>
    setForm({ ...form, [name]: event.currentTarget.value });
  const create = async (): Promise<void> => {
    setBusy(true);
    try {
      const session = await rest.create(requestBody(form));
      onClose();
      go(`/sessions/${session.id}`);
    } catch (error) {
      setTrouble(messageOf(error));
      setBusy(false);
    }
  };
  const spawners = me.value?.spawners ?? [];
  const networkModes = me.value?.egress ?? [];
  return (
    <Modal title="New session" onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <Field label="Name" value={form.name} onInput={set("name")} placeholder="Optional" />
        <label>
          Workspace
          <select value={form.workspace} onChange={set("workspace")}>
            <option value="empty">Empty</option>
            <option value="git">Clone a Git repository</option>
          </select>
        </label>
        {form.workspace === "git" && (
          <>
            <Field
              label="Repository URL"
              required
              value={form.url}
              onInput={set("url")}
              placeholder="https://github.com/you/project"
            />
            <Field
              label="Branch, tag or commit"
              value={form.ref}
              onInput={set("ref")}
              placeholder="Default branch"
            />
          </>
        )}
        <label>
          Network
          <select value={form.network} onChange={set("network")}>
            <option value="">
              {form.workspace === "git" ? "Only the host it is cloned from" : "None"}
            </option>
            {networkModes.includes("proxy") && <option value="proxy">Only listed domains</option>}
            {networkModes.includes("open") && <option value="open">Unrestricted</option>}
          </select>
        </label>
        {form.network === "proxy" && (
          <Field
            label="Allowed domains"
            required
            value={form.domains}
            onInput={set("domains")}
            placeholder="pypi.org, files.pythonhosted.org"
          />
        )}
        <details>
          <summary>More options</summary>
          <div class="form">
            <div class="pair">
              <Field
                label="Memory (GB)"
                {...AMOUNT_INPUT}
                value={form.memory}
                onInput={set("memory")}
              />
              <Field label="CPUs" {...AMOUNT_INPUT} value={form.cpus} onInput={set("cpus")} />
            </div>
            {spawners.length > 1 && (
              <label>
                Spawner
                <select value={form.spawner} onChange={set("spawner")}>
                  {spawners.map((kind, index) => (
                    <option key={kind} value={index === 0 ? "" : kind}>
                      {kind}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <label>
              Environment variables, one per line
              <textarea
                rows={2}
                value={form.variables}
                onInput={set("variables")}
                placeholder="NAME=value"
              />
            </label>
            <label>
              Secrets, one per line (not shown again)
              <textarea
                rows={2}
                value={form.secrets}
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

function Field({ label, ...input }: { label: string } & InputHTMLAttributes) {
  return (
    <label>
      {label}
      <input {...input} />
    </label>
  );
}
