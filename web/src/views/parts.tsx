/** Small parts that several views share. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Status } from "../api";
import { Problem } from "../api";
import { senderOf } from "../state/conversation";
import type { Message } from "../state/conversation";
import { visible } from "../text";

export const STATUS_WORDS: Record<Status, string> = {
  asking: "asks you",
  stalled: "stalled",
  errored: "failed",
  running: "running",
  starting: "starting",
  idle: "idle",
  dormant: "asleep",
  stopped: "stopped",
};

/** A status, told by a shape and a word; its colour only repeats them. */
export function StatusChip({ status }: { status: Status }) {
  return (
    <span class={`chip status-${status}`}>
      <StatusIcon status={status} />
      {STATUS_WORDS[status] ?? status}
    </span>
  );
}

export function StatusIcon({ status }: { status: Status }) {
  return (
    <svg class={`status-icon status-${status}`} viewBox="0 0 16 16" aria-hidden="true">
      {shapes[status] ?? shapes.idle}
    </svg>
  );
}

const shapes: Record<Status, ComponentChildren> = {
  asking: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentColor" />
      <path d="M6.1 6.2a2 2 0 1 1 2.9 1.9c-.7.4-1 .8-1 1.5M8 12v.1" class="inner" />
    </>
  ),
  stalled: (
    <>
      <circle cx="8" cy="8" r="6" class="line" />
      <path d="M8 4.5V8l2.2 1.6" class="line" />
    </>
  ),
  errored: (
    <>
      <path d="M8 1.5 15 14H1z" fill="currentColor" />
      <path d="M8 6v3.6M8 12v.1" class="inner" />
    </>
  ),
  running: <path d="M8 2a6 6 0 1 1-6 6" class="line turning" />,
  starting: <path d="M8 2a6 6 0 0 1 6 6" class="line turning" />,
  idle: <circle cx="8" cy="8" r="4" class="line" />,
  dormant: <path d="M12.5 9.8A5.3 5.3 0 1 1 6.6 3a4.3 4.3 0 0 0 5.9 6.8z" class="line" />,
  stopped: <rect x="4" y="4" width="8" height="8" rx="1.5" class="line" />,
};

/** Who sent a message, where somebody is named. */
export function From({ message }: { message: Message }) {
  const sender = senderOf(message);
  return sender ? (
    <span class="from">
      from <bdi>{visible(sender)}</bdi>
    </span>
  ) : null;
}

/** What went wrong, in words, with what may be done about it. */
export function ErrorNote({ problem, children }: { problem: Problem; children?: ComponentChildren }) {
  return (
    <div class="error-note" role="alert">
      <p>
        <strong>{problem.title}.</strong> {visible(problem.message)}
      </p>
      {children}
    </div>
  );
}

/** A question that must be answered before anything else. The focus returns to where it was. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={element} aria-labelledby={heading} onClose={onClose} onCancel={onClose}>
      <h2 id={heading}>{title}</h2>
      {children}
    </dialog>
  );
}

/** A menu of a few buttons, which closes when one is pressed, with Escape, and when something else is. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const element = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const outside = (event: globalThis.Event): void => {
      const menu = element.current;
      if (menu?.open && event.target instanceof Node && !menu.contains(event.target)) menu.open = false;
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, []);
  const close = (): void => {
    if (element.current) element.current.open = false;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !element.current?.open) return;
    close();
    element.current.querySelector("summary")?.focus();
  };
  return (
    <details class="menu" ref={element} onKeyDown={key}>
      <summary aria-label={label} title={label}>
        <svg viewBox="0 0 16 16" aria-hidden="true" class="icon">
          <circle cx="3" cy="8" r="1.4" />
          <circle cx="8" cy="8" r="1.4" />
          <circle cx="13" cy="8" r="1.4" />
        </svg>
      </summary>
      <div class="menu-items" onClick={close}>
        {children}
      </div>
    </details>
  );
}

/** Work that a button starts: whether it goes on, and what went wrong. */
export function useWork(): {
  busy: boolean;
  problem: Problem | null;
  run: (work: () => Promise<unknown>) => Promise<boolean>;
  forget: () => void;
} {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const run = async (work: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    setProblem(null);
    try {
      await work();
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, problem, run, forget: () => setProblem(null) };
}
