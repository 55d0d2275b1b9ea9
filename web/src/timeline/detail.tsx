import { styledPieces } from "./ansi";
import { argsOf } from "./describe";
import { diffOf } from "./diff";
import type { TimelineRow } from "./timeline_log";

const IMAGE_URL = /^data:image\/(?:png|jpeg|webp|gif);base64,/;
/** Arguments that the list of arguments leaves out. */
const HIDDEN_ARGS = new Set(["thought", "security_risk", "confirmation_state", "impl_source"]);
/** Default values, which are not shown. */
const DEFAULTS: Record<string, unknown> = { start: 0, end: -1, include_extra: true };
/** Arguments that the diff already shows. */
const IN_DIFF = new Set(["old_str", "new_str", "file_text", "content"]);

/** The expanded row of an action: its arguments, its change as a diff, and its result. */
export function Detail({ row }: { row: TimelineRow }) {
  const diff = diffOf(row);
  const picture = screenshotOf(row);
  const content = row.observation?.content ?? row.output;
  return (
    <>
      <RequestedArguments row={row} hasDiff={diff !== null} />
      {diff && (
        <pre class="diff" tabIndex={0} aria-label="Change">
          {diff.map((line, index) => (
            <span key={index} data-sign={line.sign}>
              {line.sign} {line.text}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
      {picture && <img class="picture" src={picture} alt="Browser screenshot" />}
      {content !== "" && (
        <pre class="output" tabIndex={0} aria-label="Output">
          {styledPieces(content).map((piece, index) => (
            <span key={index} class={piece.style}>
              {piece.text}
            </span>
          ))}
        </pre>
      )}
      {row.lostReason && !row.observation && <p class="lost">{row.lostReason}</p>}
      {content === "" && !row.lostReason && !picture && (
        <p class="none">{row.observation ? "No output." : "No output yet."}</p>
      )}
    </>
  );
}

/** The screenshot in the observation as a data URL; null if there is none. */
export function screenshotOf(row: TimelineRow): string | null {
  const seen = row.observation;
  if (seen?.observation !== "browse") return null;
  const data = seen.extras.screenshot ?? "";
  if (data === "") return null;
  const whole = data.startsWith("data:") ? data : `data:image/png;base64,${data}`;
  return IMAGE_URL.test(whole) ? whole : null;
}

function RequestedArguments({ row, hasDiff }: { row: TimelineRow; hasDiff: boolean }) {
  if (!row.action) return null;
  const given = Object.entries(argsOf(row.action)).filter(
    ([name, value]) =>
      value !== null &&
      value !== "" &&
      value !== false &&
      !HIDDEN_ARGS.has(name) &&
      value !== DEFAULTS[name] &&
      !(name === "start" && value === 1) &&
      !(hasDiff && IN_DIFF.has(name)),
  );
  const thought = argsOf(row.action)["thought"];
  return (
    <>
      {typeof thought === "string" && thought !== "" && <p class="thought">{thought}</p>}
      <dl class="asked">
        {given.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
