import { useState } from "preact/hooks";
import type { ApprovalAnswer, Approval } from "../hub/types";
import { approvals, connection, me, now, sessions, windows } from "../state";
import { ActionButton, EmptyState, ErrorNote, ageText } from "../ui/parts";
import { Rules } from "./rules";

export function ApprovalsView() {
  return (
    <>
      <header class="head">
        <h1>Approvals</h1>
      </header>
      {approvals.value.length === 0 && (
        <EmptyState icon="approvals" title="No pending approvals">
          <p>
            {me.value?.scope === "admin" || me.value?.scope === "member"
              ? "When an agent needs approval in a window or session, the window's user, its signed-in owner and every signed-in admin are asked. The first answer counts."
              : "Only users signed in as admin or member can answer."}
          </p>
        </EmptyState>
      )}
      {approvals.value.map((each) => (
        <Question key={`${each.window_id ?? each.session_id} ${each.id}`} approval={each} />
      ))}
      {me.value?.scope === "admin" && <Rules />}
    </>
  );
}

/** One question: what an agent wants to do, with a button for each possible answer. */
export function Question({ approval }: { approval: Approval }) {
  const [trouble, setTrouble] = useState("");
  const left = approval.expires ? (Date.parse(approval.expires) - now.value) / 1000 : NaN;
  const isWhole = approval.is_whole ?? true;
  return (
    <article class="question" aria-label={`${approval.agent} asks`}>
      <header>
        <b>{approval.agent}</b> wants to <b>{approval.kind}</b> in <Place approval={approval} />
        {Number.isFinite(left) && left > 0 && <span class="sub"> · {ageText(left)} left</span>}
      </header>
      {!approval.detail && <p class="question-summary">{approval.summary}</p>}
      {approval.warnings?.map((text) => (
        <ErrorNote key={text} what={text} />
      ))}
      {approval.detail && (
        <pre class="output" tabIndex={0} aria-label="Full request">
          {approval.detail}
        </pre>
      )}
      <Parts approval={approval} />
      {trouble && <ErrorNote what={trouble} />}
      {!isWhole && <p>{cutText(approval)}</p>}
      <div class="controls">
        {choicesOf(approval).map((word) => (
          <ActionButton
            key={word}
            {...BUTTONS[word]}
            act={() => connection.answer(approval, word)}
            onTrouble={setTrouble}
          />
        ))}
      </div>
    </article>
  );
}

const BUTTONS: Record<ApprovalAnswer, { label: string; class?: string }> = {
  once: { label: "Allow once", class: "primary" },
  always: { label: "Always, for these words" },
  workspace: { label: "Always allow in this workspace" },
  deny: { label: "Deny", class: "danger" },
};

/** A request that is not shown whole can only be denied here. */
function choicesOf({ choices, is_whole: isWhole = true }: Approval): ApprovalAnswer[] {
  if (!isWhole) return ["deny"];
  return (choices ?? ["once", "workspace", "deny"]).filter((word) => word in BUTTONS);
}

function Place({
  approval: { window_id: windowId, session_id: sessionId },
}: {
  approval: Approval;
}) {
  const isWindow = windowId !== undefined;
  const name = isWindow
    ? windows.value.find((each) => each.connection_id === windowId)?.name
    : sessions.value.get(sessionId ?? "")?.name;
  return (
    <a href={isWindow ? `/windows/${windowId}` : `/sessions/${sessionId}`} data-inside>
      {name || (isWindow ? "a window" : "a session")}
    </a>
  );
}

/** The parts of a command with the verdict on each, and the rules that would allow them. */
function Parts({ approval: { parts = [], proposals = [], choices = [] } }: { approval: Approval }) {
  return (
    <>
      {parts.length > 0 && (
        <ul class="parts" aria-label="Parts of the command">
          {parts.map((part, index) => (
            <li key={index} class={`part-${part.verdict}`}>
              <b>{part.verdict}</b> <code>{part.text}</code> <span class="sub">{part.reason}</span>
            </li>
          ))}
        </ul>
      )}
      {choices.includes("always") && proposals.length > 0 && (
        <p>
          “Always” adds {proposals.length === 1 ? "the rule" : "the rules"}{" "}
          {proposals.map((each, index) => (
            <>
              {index > 0 && ", "}
              <code>{each.text}</code>
            </>
          ))}{" "}
          for this agent.
        </p>
      )}
    </>
  );
}

/** Says how much of a request that was cut is shown. */
function cutText({ detail = "", detail_length: length = 0 }: Approval): string {
  const [shown, all] = [detail.length, length].map((each) => each.toLocaleString("en"));
  const range = length ? `${shown} of ${all}` : shown;
  return `Only the first ${range} characters are shown here. The rest is shown in the window: allow the request there, or deny it here.`;
}
