import { signal, useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { HubConnection } from "../hub/connection";
import type { TimelineSource } from "../hub/types";
import { Icon } from "../ui/icons";
import { ActionButton, EmptyState, ErrorNote } from "../ui/parts";
import {
  durationText,
  groupOf,
  kindOf,
  outcomeOf,
  matchesFilter,
  subjectOf,
  type Filter,
} from "./describe";
import { Detail, screenshotOf } from "./detail";
import { Restore, type RestoreCheckpoint } from "./restore";
import { TimelineLog, type TimelineRow } from "./timeline_log";
import { visibleRows, topOf, totalOf } from "./virtual_list";

/** A log and a version that triggers a redraw, at most once per animation frame. */
export interface LiveLog {
  log: TimelineLog;
  version: Signal<number>;
  /** Why the timeline ended; null if it has not ended. */
  endReason: Signal<string | null>;
}

/** Follows a timeline while the component is mounted. */
export function useLog(connection: HubConnection, source: TimelineSource): LiveLog {
  const live = useMemo<LiveLog>(
    () => ({ log: new TimelineLog(), version: signal(0), endReason: signal<string | null>(null) }),
    [source.kind, source.id],
  );
  useEffect(() => {
    let frame = 0;
    const draw = (): void => {
      frame = 0;
      live.version.value += 1;
    };
    const leave = connection.watch(source, {
      position: () => ({ epoch: live.log.epoch, after: live.log.last }),
      entries(epoch, entries) {
        live.log.apply(epoch, entries);
        live.endReason.value = null;
        frame ||= requestAnimationFrame(draw);
      },
      ended: (why) => (live.endReason.value = why),
    });
    return () => {
      leave();
      cancelAnimationFrame(frame);
    };
  }, [live]);
  return live;
}

/** Height of a collapsed row in pixels. */
const ROW_HEIGHT = 34;
const GROUPS: { value: Filter["group"]; label: string }[] = [
  { value: "all", label: "All" },
  { value: "commands", label: "Commands" },
  { value: "files", label: "Files" },
  { value: "browser", label: "Browser" },
  { value: "other", label: "Other" },
  { value: "failed", label: "Failed" },
];

/**
 * `download` saves the whole timeline, including rows that are no longer shown. `restore` undoes
 * what an action changed.
 */
export function Timeline({
  log: live,
  download,
  restore,
}: {
  log: LiveLog;
  download?: () => Promise<void>;
  restore?: RestoreCheckpoint;
}) {
  const [trouble, setTrouble] = useState("");
  const [filter, setFilter] = useState<Filter>({ text: "", group: "all" });
  const version = live.version.value;
  const isUnfiltered = filter.text === "" && filter.group === "all";
  const rows = useMemo(
    () =>
      isUnfiltered ? live.log.rows : live.log.rows.filter((row) => matchesFilter(row, filter)),
    [isUnfiltered, filter, version, live],
  );
  return (
    <div class="timeline">
      <div class="filters">
        <label class="search">
          <span class="hidden">Search the timeline</span>
          <Icon name="search" />
          <input
            type="search"
            placeholder="Search"
            value={filter.text}
            onInput={(event) => setFilter({ ...filter, text: event.currentTarget.value })}
          />
        </label>
        <div class="chips" role="group" aria-label="Filter">
          {GROUPS.map((group) => (
            <button
              key={group.value}
              type="button"
              aria-pressed={filter.group === group.value}
              onClick={() => setFilter({ ...filter, group: group.value })}
            >
              {group.label}
            </button>
          ))}
        </div>
        <output class="tally">
          {isUnfiltered
            ? countText(rows.length)
            : `${rows.length} of ${countText(live.log.rows.length)}`}
        </output>
        {download && (
          <ActionButton
            icon="download"
            label="Download"
            class="quiet"
            isIconOnly
            act={async () => {
              setTrouble("");
              await download();
            }}
            onTrouble={setTrouble}
          />
        )}
      </div>
      {trouble && <ErrorNote what={trouble} />}
      {rows.length === 0 ? (
        <EmptyTimeline isUnfiltered={isUnfiltered} endReason={live.endReason.value} />
      ) : (
        <Rows rows={rows} live={live} version={version} restore={restore} />
      )}
    </div>
  );
}

function countText(actions: number): string {
  return actions === 1 ? "1 action" : `${actions} actions`;
}

function EmptyTimeline({
  isUnfiltered,
  endReason,
}: {
  isUnfiltered: boolean;
  endReason: string | null;
}) {
  if (!isUnfiltered)
    return (
      <EmptyState icon="search" title="No matching actions">
        <p>Change the search or the filter.</p>
      </EmptyState>
    );
  return (
    <EmptyState icon="status" title="No actions yet">
      <p>{endReason ? endReason : "Actions appear here as soon as an agent starts them."}</p>
    </EmptyState>
  );
}

/** Renders only the visible rows, so that long timelines scroll smoothly. */
function Rows({
  rows,
  live,
  version,
  restore,
}: {
  rows: readonly TimelineRow[];
  live: LiveLog;
  version: number;
  restore: RestoreCheckpoint | undefined;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const open = useSignal<ReadonlySet<string>>(new Set());
  const [heights, setHeights] = useState<ReadonlyMap<string, number>>(new Map());
  const isFollowing = useRef(true);

  const extraHeights = new Map<number, number>();
  if (open.value.size > 0) {
    rows.forEach((row, index) => {
      if (open.value.has(row.id)) extraHeights.set(index, heights.get(row.id) ?? 0);
    });
  }
  const shape = { count: rows.length, height: ROW_HEIGHT, extraHeights };
  const total = totalOf(shape);
  const visible = visibleRows(shape, view.top, view.height);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const resized = new ResizeObserver(() =>
      setView((known) => ({ ...known, height: element.clientHeight })),
    );
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    if (isFollowing.current && box.current) box.current.scrollTop = total;
  }, [total, version]);

  const onScroll = (): void => {
    const element = box.current;
    if (!element) return;
    // New rows may have arrived since the last scroll, so the view may not be at the end although
    // the user still follows it. Only scrolling up means that the user stopped following.
    const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW_HEIGHT;
    if (isAtEnd) isFollowing.current = true;
    else if (element.scrollTop < view.top) isFollowing.current = false;
    setView({ top: element.scrollTop, height: element.clientHeight });
  };
  const toggle = (id: string): void => {
    const next = new Set(open.value);
    if (!next.delete(id)) next.add(id);
    isFollowing.current = false;
    open.value = next;
  };
  const onMeasured = (id: string, height: number): void => {
    if (heights.get(id) !== height) setHeights((known) => new Map(known).set(id, height));
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const focused = (event.target as Element).closest<HTMLElement>("[data-row]");
    if (step === undefined || !focused) return;
    event.preventDefault();
    focusRow(Number(focused.dataset["row"]) + step);
  };
  const focusRow = (index: number): void => {
    const element = box.current;
    if (!element || index < 0 || index >= rows.length) return;
    const top = topOf(shape, index);
    if (top < element.scrollTop) element.scrollTop = top;
    if (top + ROW_HEIGHT > element.scrollTop + element.clientHeight)
      element.scrollTop = top + ROW_HEIGHT - element.clientHeight;
    setView({ top: element.scrollTop, height: element.clientHeight });
    requestAnimationFrame(() =>
      element.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus(),
    );
  };
  const shown = rows.slice(visible.first, visible.end);
  return (
    <div
      class="rows"
      ref={box}
      onScroll={onScroll}
      onKeyDown={onKey}
      tabIndex={0}
      role="list"
      aria-label="Actions, oldest first"
    >
      <div class="rows-all" style={{ height: `${total}px` }}>
        <div class="rows-seen" style={{ transform: `translateY(${visible.top}px)` }}>
          {shown.map((row, index) => (
            <RowView
              key={row.id}
              row={row}
              index={visible.first + index}
              count={rows.length}
              isOpen={open.value.has(row.id)}
              toggle={toggle}
              onMeasured={onMeasured}
              restore={restore}
            />
          ))}
        </div>
      </div>
      {live.endReason.value && <p class="rows-end">{live.endReason.value}</p>}
    </div>
  );
}

function RowView(props: {
  row: TimelineRow;
  index: number;
  count: number;
  isOpen: boolean;
  toggle: (id: string) => void;
  onMeasured: (id: string, height: number) => void;
  restore: RestoreCheckpoint | undefined;
}) {
  const { row, isOpen } = props;
  return (
    <div
      class="row"
      role="listitem"
      aria-setsize={props.count}
      aria-posinset={props.index + 1}
      data-state={row.state}
    >
      <button
        type="button"
        class="row-head"
        data-row={props.index}
        aria-expanded={isOpen}
        onClick={() => props.toggle(row.id)}
      >
        <Icon name="chevron" />
        <time>{clockText(row.began)}</time>
        <span class={`kind kind-${groupOf(row)}`}>{kindOf(row)}</span>
        <span class="subject">{subjectOf(row)}</span>
        <span class="outcome">{outcomeOf(row)}</span>
        <span class="agent">{row.who}</span>
        <span class="duration">
          {row.state === "running" ? (
            <i class="spinner" role="img" aria-label="running" />
          ) : (
            durationText(row.seconds)
          )}
        </span>
      </button>
      {isOpen && <Opened row={row} onMeasured={props.onMeasured} restore={props.restore} />}
    </div>
  );
}

function Opened(props: {
  row: TimelineRow;
  onMeasured: (id: string, height: number) => void;
  restore: RestoreCheckpoint | undefined;
}) {
  const { row, restore } = props;
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const node = element.current;
    if (!node) return;
    const resized = new ResizeObserver(() => props.onMeasured(props.row.id, node.offsetHeight));
    resized.observe(node);
    return () => resized.disconnect();
  }, [props.row.id]);
  return (
    <div ref={element} class="row-body">
      <Detail row={row} />
      {restore && row.checkpoint !== null && (
        <Restore checkpoint={row.checkpoint} restore={restore} />
      )}
    </div>
  );
}

/** The newest browser screenshot in the timeline. */
export function LastScreenshot({ log: live }: { log: LiveLog }) {
  const version = live.version.value;
  const last = useMemo(
    () => live.log.rows.findLast((row) => screenshotOf(row) !== null),
    [version, live],
  );
  const picture = last && screenshotOf(last);
  if (!picture)
    return (
      <EmptyState icon="windows" title="No page opened yet">
        <p>
          When an agent opens a page (<code>browse</code>), the latest screenshot appears here.
        </p>
      </EmptyState>
    );
  return (
    <figure class="screenshot">
      <figcaption>{subjectOf(last)}</figcaption>
      <img src={picture} alt="Latest browser screenshot" />
    </figure>
  );
}

const CLOCK_FORMAT = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

function clockText(time: number): string {
  return CLOCK_FORMAT.format(time * 1000);
}
