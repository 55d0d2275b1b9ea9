// Components that several views share, and formatters for ages and sizes.
import type { ComponentChildren, TargetedMouseEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import { Icon, type IconName } from "./icons";

export function EmptyState(props: { icon: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={props.icon} />
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}

/** The head of a page about one session or window: a link to the list, its name and its state. */
export function PageHead(props: {
  list: { href: string; label: string };
  title: string;
  state: string;
  about: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <header class="head">
      <div>
        <nav class="crumbs" aria-label="Breadcrumb">
          <a href={props.list.href} data-inside>
            {props.list.label}
          </a>
        </nav>
        <h1>
          {props.title} <Badge state={props.state} />
        </h1>
        <p class="sub">{props.about}</p>
      </div>
      {props.children}
    </header>
  );
}

export function ErrorNote(props: { what: string; again?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <p>{props.what}</p>
      {props.again && (
        <button type="button" onClick={props.again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Badge({ state, label }: { state: string; label?: string }) {
  return (
    <span class={`badge badge-${state}`}>
      <i aria-hidden="true" />
      {label ?? state}
    </span>
  );
}

/** An entry of a `dl`. */
export function Fact({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** A button for an asynchronous action: disabled while it runs; errors go to `onTrouble`. */
export function ActionButton(props: {
  icon?: IconName;
  label: string;
  class?: string;
  /** Show only the icon; the label is a tooltip and for screen readers. */
  isIconOnly?: boolean;
  act: () => Promise<unknown>;
  onTrouble: (what: string) => void;
}) {
  const [isBusy, setBusy] = useState(false);
  const press = async (): Promise<void> => {
    setBusy(true);
    try {
      await props.act();
    } catch (error) {
      props.onTrouble(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class={props.class ?? ""}
      disabled={isBusy}
      aria-label={props.isIconOnly ? props.label : undefined}
      title={props.isIconOnly ? props.label : undefined}
      onClick={() => void press()}
    >
      {props.icon && <Icon name={props.icon} />}
      {!props.isIconOnly && props.label}
    </button>
  );
}

/** A modal dialog. Escape and a click outside close it. */
export function Modal(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const onBackdropClick = (event: TargetedMouseEvent<HTMLDialogElement>): void => {
    if (event.target === event.currentTarget) props.onClose();
  };
  return (
    <dialog
      ref={dialog}
      aria-labelledby="modal-title"
      onClose={props.onClose}
      onClick={onBackdropClick}
    >
      <div class="modal">
        <h2 id="modal-title">{props.title}</h2>
        {props.children}
      </div>
    </dialog>
  );
}

export function ageText(seconds: number): string {
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function sinceText(iso: string, now: number): string {
  const time = Date.parse(iso);
  return Number.isNaN(time) ? "" : ageText(Math.max(0, (now - time) / 1000));
}

export function bytesText(count: number): string {
  const units = ["B", "KB", "MB", "GB"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit] ?? ""}`;
}
