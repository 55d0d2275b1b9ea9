import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { AuditEntry, User } from "../hub/types";
import { me, rest } from "../state";
import { ActionButton, ErrorNote } from "../ui/parts";

const ROLES: User["role"][] = ["admin", "member", "viewer"];

/** The users of the hub and the audit log, for admins. */
export function PeopleView() {
  const [users, setUsers] = useState<User[]>([]);
  const [entries, setEntries] = useState<AuditEntry[]>([]);
  const [user, setUser] = useState("");
  const [trouble, setTrouble] = useState("");
  const refresh = (): void => {
    setTrouble("");
    Promise.all([rest.users(), rest.audit(user)]).then(
      ([foundUsers, foundEntries]) => {
        setUsers(foundUsers);
        setEntries(foundEntries);
      },
      (error: unknown) => setTrouble(messageOf(error)),
    );
  };
  useEffect(refresh, [user]);
  const change = async (name: string, changes: Partial<User>): Promise<void> => {
    // The call replaces all fields, and another admin may have changed them since.
    const current = (await rest.users()).find((each) => each.name === name);
    if (current) await rest.putUser({ ...current, ...changes });
    refresh();
  };
  return (
    <>
      <header class="head">
        <h1>People</h1>
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </header>
      {trouble && <ErrorNote what={trouble} again={refresh} />}
      <section aria-label="Users">
        <h2>Users</h2>
        {users.length === 0 && <p>Nobody has signed in with an account yet.</p>}
        {users.length > 0 && (
          <div class="table" tabIndex={0} role="region" aria-label="Table of users">
            <table>
              <thead>
                <tr>
                  <th scope="col">User</th>
                  <th scope="col">Role</th>
                  <th scope="col">Last sign-in</th>
                  <th scope="col">Access</th>
                </tr>
              </thead>
              <tbody>
                {users.map((each) => (
                  <tr key={each.name}>
                    <th scope="row">
                      {each.name} <span class="sub">{each.display_name}</span>
                    </th>
                    <td>
                      <select
                        aria-label={`Role of ${each.name}`}
                        value={each.role}
                        disabled={each.name === me.value?.owner}
                        onChange={({ currentTarget }) => {
                          const role = currentTarget.value as User["role"];
                          change(each.name, { role }).catch((error: unknown) =>
                            setTrouble(messageOf(error)),
                          );
                        }}
                      >
                        {ROLES.map((role) => (
                          <option key={role} value={role}>
                            {role}
                          </option>
                        ))}
                      </select>
                    </td>
                    <td>{timeText(each.last_sign_in)}</td>
                    <td>
                      {each.name !== me.value?.owner && (
                        <ActionButton
                          label={each.disabled ? `Enable ${each.name}` : `Disable ${each.name}`}
                          act={() => change(each.name, { disabled: !each.disabled })}
                          onTrouble={setTrouble}
                        />
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <section aria-label="Audit log">
        <h2>Audit log</h2>
        <label>
          User{" "}
          <input
            type="search"
            value={user}
            onChange={(event) => setUser(event.currentTarget.value.trim())}
          />
        </label>
        <div class="table" tabIndex={0} role="region" aria-label="Entries of the audit log">
          <table>
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Who</th>
                <th scope="col">What</th>
                <th scope="col">Session</th>
                <th scope="col">Details</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((each) => (
                <tr key={each.id}>
                  <td>{timeText(each.time)}</td>
                  <td>
                    {each.who || "not signed in"}
                    {each.user && each.user !== each.who && ` (${each.user})`}
                  </td>
                  <td>{each.verb}</td>
                  <td>{each.session_id}</td>
                  <td>
                    <code>{JSON.stringify(each.detail).slice(0, 200)}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  );
}

function timeText(time: string | null): string {
  return time ? new Date(time).toLocaleString() : "never";
}
