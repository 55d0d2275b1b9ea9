import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { Share } from "../hub/types";
import { rest } from "../state";
import { ActionButton, ErrorNote } from "../ui/parts";

/** Who else may see or use a session, for its owner and admins. */
export function Sharing({ session }: { session: string }) {
  const [shares, setShares] = useState<Share[]>([]);
  const [user, setUser] = useState("");
  const [access, setAccess] = useState<Share["access"]>("view");
  const [trouble, setTrouble] = useState("");
  const refresh = async (): Promise<void> => setShares(await rest.shares(session));
  useEffect(() => {
    refresh().catch((error: unknown) => setTrouble(messageOf(error)));
  }, [session]);
  const share = async (): Promise<void> => {
    await rest.share(session, user.trim(), access);
    setUser("");
    setTrouble("");
    await refresh();
  };
  const unshare = async (name: string): Promise<void> => {
    await rest.unshare(session, name);
    await refresh();
  };
  return (
    <section aria-label="Sharing" class="sharing">
      {trouble && <ErrorNote what={trouble} />}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          share().catch((error: unknown) => setTrouble(messageOf(error)));
        }}
      >
        <label>
          User{" "}
          <input value={user} onInput={(event) => setUser(event.currentTarget.value)} required />
        </label>{" "}
        <label>
          Access{" "}
          <select
            value={access}
            onChange={(event) => setAccess(event.currentTarget.value as Share["access"])}
          >
            <option value="view">may see it</option>
            <option value="act">may use it</option>
          </select>
        </label>{" "}
        <button type="submit" class="primary">
          Share
        </button>
      </form>
      {shares.length === 0 && <p>Only its owner and admins have access to this session.</p>}
      <ul class="parts">
        {shares.map((each) => (
          <li key={each.user}>
            <b>{each.user}</b> {each.access === "act" ? "may use it" : "may see it"}{" "}
            <ActionButton
              label={`Stop sharing with ${each.user}`}
              act={() => unshare(each.user)}
              onTrouble={setTrouble}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}
