import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { HealthCheck } from "../hub/types";
import { me, rest, sessions, windows } from "../state";
import { Badge, ErrorNote, Fact } from "../ui/parts";

const LABELS: Record<HealthCheck["state"], string> = {
  ok: "OK",
  missing: "missing",
  limited: "limited",
};

export function HealthView() {
  const [checks, setChecks] = useState<HealthCheck[] | null>(null);
  const [trouble, setTrouble] = useState("");
  const refresh = (): void => {
    setTrouble("");
    setChecks(null);
    rest.checks().then(setChecks, (error: unknown) => setTrouble(messageOf(error)));
  };
  useEffect(refresh, []);
  const running = [...sessions.value.values()].filter((each) => each.state === "ready").length;
  const healthy = windows.value.filter((each) => each.status === "healthy").length;
  return (
    <>
      <header class="head">
        <h1>Health</h1>
        <button type="button" onClick={refresh} disabled={!checks && !trouble}>
          Refresh
        </button>
      </header>
      <dl class="figures">
        <Fact label="Sessions running" value={`${running} of ${sessions.value.size}`} />
        <Fact label="Windows responding" value={`${healthy} of ${windows.value.length}`} />
        <Fact label="Version" value={me.value?.version ?? ""} />
      </dl>
      {trouble && <ErrorNote what={trouble} again={refresh} />}
      {!checks && !trouble && <p class="loading">Checking the hub's machine…</p>}
      {checks && (
        <ul class="checks">
          {checks.map((check) => (
            <li key={check.name}>
              <Badge state={check.state} label={LABELS[check.state]} />
              <b>{check.name}</b>
              <span>{check.found}</span>
              {check.advice && <p class="advice">{check.advice}</p>}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
