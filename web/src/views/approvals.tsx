import { useState } from "preact/hooks";
import type { ApprovalAnswer, Approval } from "../hub/types";
import { approvals, connection, me, now, windows } from "../state";
import { ActionButton, EmptyState, ErrorNote, age } from "../ui/parts";

export function ApprovalsView() {
  return (
    <>
      <header class="head">
        <h1>Approvals</h1>
      </header>
      {approvals.value.length === 0 && (
        <EmptyState icon="approvals" title="No pending approvals">
          <p>
            {me.value?.scope === "admin"
              ? "When an agent wants to act in a window for the first time, the window's user and every signed-in admin are asked. The first answer counts."
              : "Only users signed in as admin can answer."}
          </p>
        </EmptyState>
      )}
      {approvals.value.map((each) => (
        <Question key={`${each.window_id} ${each.id}`} approval={each} />
      ))}
    </>
  );
}

/** One question: what an agent wants to do, with buttons for the three answers. */
export function Question({ approval }: { approval: Approval }) {
  const [trouble, setTrouble] = useState("");
  const window = windows.value.find((each) => each.connection_id === approval.window_id);
  const left = approval.expires ? (Date.parse(approval.expires) - now.value) / 1000 : NaN;
  const isWhole = approval.is_whole ?? true;
  const answer = (word: ApprovalAnswer) => () => connection.answer(approval, word);
  return (
    <article class="question" aria-label={`${approval.agent} asks`}>
      <header>
        <b>{approval.agent}</b> wants to <b>{approval.kind}</b> in{" "}
        <a href={`/windows/${approval.window_id}`} data-inside>
          {window?.name ?? "a window"}
        </a>
        {Number.isFinite(left) && left > 0 && <span class="sub"> · {age(left)} left</span>}
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
      {trouble && <ErrorNote what={trouble} />}
      {!isWhole && <p>{cutText(approval)}</p>}
      <div class="controls">
        {isWhole && (
          <>
            <ActionButton
              label="Allow once"
              class="primary"
              act={answer("once")}
              onTrouble={setTrouble}
            />
            <ActionButton
              label="Always allow in this workspace"
              act={answer("workspace")}
              onTrouble={setTrouble}
            />
          </>
        )}
        <ActionButton label="Deny" class="danger" act={answer("deny")} onTrouble={setTrouble} />
      </div>
    </article>
  );
}

/** Says how much of a request that was cut is shown. */
function cutText({ detail = "", detail_length: length = 0 }: Approval): string {
  const [shown, all] = [detail.length, length].map((each) => each.toLocaleString("en"));
  const of = length ? `${shown} of ${all}` : shown;
  return `Only the first ${of} characters are shown here. The rest is shown in the window: allow the request there, or deny it here.`;
}
