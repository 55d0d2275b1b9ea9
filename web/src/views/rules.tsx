import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import type { HubRule, RuleInUse } from "../hub/types";
import { approvals, now, rest, sessions } from "../state";
import { ErrorNote, ageText } from "../ui/parts";

const DECIDED = { allow: "allowed", ask: "asked about", deny: "denied" } as const;

/** The hub's rules for commands, or those of a chosen session with what each decided there. */
export function Rules() {
  const [chosen, setChosen] = useState("");
  const [rules, setRules] = useState<(HubRule | RuleInUse)[]>([]);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let isCurrent = true; // an answer for an earlier choice may arrive late
    const asked = chosen ? rest.rulesInUse(chosen) : rest.rules();
    asked.then(
      (found) => {
        if (!isCurrent) return;
        setRules(found);
        setTrouble("");
      },
      (error: unknown) => isCurrent && setTrouble(messageOf(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [approvals.value, chosen]); // an answer may have added a rule
  if (!chosen && trouble) return <ErrorNote what={trouble} />;
  if (!chosen && rules.length === 0) return null;
  return (
    <section aria-label="Rules for sessions">
      <h2>Rules for commands in sessions</h2>
      <label>
        What they decided in{" "}
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">Choose a session</option>
          {[...sessions.value.values()].map(({ id, name }) => (
            <option key={id} value={id}>
              {name || id}
            </option>
          ))}
        </select>
      </label>
      {trouble ? <ErrorNote what={trouble} /> : <RuleList rules={rules} />}
    </section>
  );
}

function RuleList({ rules }: { rules: (HubRule | RuleInUse)[] }) {
  return (
    <ul class="parts rules">
      {rules.map((each) => (
        <li key={`${each.verdict} ${each.origin} ${each.rule}`} class={`part-${each.verdict}`}>
          <b>{each.verdict}</b> <code>{each.rule}</code> for {each.agent || "all agents"}{" "}
          <span class="sub">{each.why}</span>
          <div class="sub">
            Rule of the {"made_by" in each ? each.made_by : "hub"}, {each.origin}
          </div>
          {"count" in each && <Decided rule={each} />}
        </li>
      ))}
    </ul>
  );
}

function Decided({ rule }: { rule: RuleInUse }) {
  const { verdict, count, last_time, last_command } = rule;
  if (count === null) return <div class="sub">Counted only while the session runs</div>;
  const passed = ageText(Math.max(0, now.value / 1000 - (last_time ?? 0)));
  return (
    <div class="sub">
      {DECIDED[verdict]} {count} {count === 1 ? "command" : "commands"}
      {last_time !== null && (
        <>
          , the last {passed === "just now" ? passed : `${passed} ago`}: <code>{last_command}</code>
        </>
      )}
    </div>
  );
}
