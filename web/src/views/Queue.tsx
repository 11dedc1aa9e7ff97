/** What waits: in its order, to be changed, moved and taken back. */

import { useId, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { ask, post, sessionPath } from "../api";
import type { Mode, Receipt, Session } from "../api";
import type { Conversation, Message } from "../state/conversation";
import { visible } from "../text";
import { MODES } from "./modes";
import { ErrorNote, From, useWork } from "./parts";

interface Props {
  session: Session;
  conversation: Conversation;
  receipts: ReadonlyMap<string, Receipt>;
  version: number;
}

export function Queue({ session, conversation, receipts }: Props) {
  const heading = useId();
  const work = useWork();
  const list = useRef<HTMLOListElement>(null);
  const { queue } = conversation;
  const paused = session.paused_at !== null;
  const path = sessionPath(session.id);
  if (queue.length === 0 && !paused) return null;

  const focus = (id: string | undefined, what: string): void => {
    requestAnimationFrame(() => {
      const wanted = id && list.current?.querySelector<HTMLElement>(`[data-queued="${id}"] [data-does="${what}"]:not(:disabled)`);
      if (wanted) wanted.focus();
      else document.querySelector<HTMLElement>("#message")?.focus();
    });
  };
  const move = async (id: string, by: number): Promise<void> => {
    const order = queue.filter((each) => each !== id);
    const place = queue.indexOf(id) + by;
    order.splice(place, 0, id);
    if (await work.run(() => post(`${path}/queue`, { order }))) announce(`Now at place ${place + 1}`);
    focus(id, by < 0 ? (place === 0 ? "down" : "up") : place === order.length - 1 ? "up" : "down");
  };
  const withdraw = async (id: string): Promise<void> => {
    const next = queue[queue.indexOf(id) + 1] ?? queue[queue.indexOf(id) - 1];
    if (await work.run(() => ask("DELETE", `/v1/messages/${id}`))) announce("Withdrawn");
    focus(next, "withdraw");
  };
  return (
    <section class="queue" aria-labelledby={heading}>
      <div class="queue-head">
        <h2 id={heading}>
          {paused ? "Paused" : "Waiting"} <span class="count">{queue.length}</span>
        </h2>
        <button
          type="button"
          class="plain"
          disabled={work.busy}
          onClick={() => void work.run(() => post(`${path}/queue/${paused ? "continue" : "pause"}`))}
        >
          {paused ? "Let it go on" : "Pause"}
        </button>
      </div>
      {work.problem && <ErrorNote problem={work.problem} />}
      <ol ref={list}>
        {queue.map((id, place) => (
          <Waiting
            key={id}
            id={id}
            message={conversation.messages.get(id)}
            receipt={receipts.get(id)}
            first={place === 0}
            last={place === queue.length - 1}
            busy={work.busy}
            onMove={(by) => void move(id, by)}
            onWithdraw={() => void withdraw(id)}
          />
        ))}
      </ol>
    </section>
  );
}

/** Why something waits, without the ids that a person here has no use for. */
const plainly = (why: string): string => visible(why.replace(/\b(?:the )?turn turn_\w+/, "the running turn").replace(/\bmsg_\w+/, "another one"));

interface WaitingProps {
  id: string;
  message: Message | undefined;
  receipt: Receipt | undefined;
  first: boolean;
  last: boolean;
  busy: boolean;
  onMove: (by: number) => void;
  onWithdraw: () => void;
}

function Waiting({ id, message, receipt, first, last, busy, onMove, onWithdraw }: WaitingProps) {
  const [editing, setEditing] = useState(false);
  const text = message ? visible(message.text) : "…";
  const mode = message?.mode ?? receipt?.when_busy;
  const about = `: ${text.slice(0, 60)}`;
  return (
    <li data-queued={id}>
      {editing && message ? (
        <Edit message={message} onDone={() => setEditing(false)} />
      ) : (
        <>
          <div class="queued-text" dir="auto" title={receipt?.waiting_for ?? undefined}>
            {text.slice(0, 500)}
          </div>
          <div class="queued-foot">
            {message && <From message={message} />}
            <span>{mode ? MODES[mode].short : ""}</span>
            {message?.steering && <span>handed to the agent</span>}
            {message?.declined && <span>not taken in</span>}
            {receipt?.waiting_for && first && <span class="waits-for">waits for {plainly(receipt.waiting_for)}</span>}
          </div>
          <div class="queued-does">
            <Do does="up" label={`Move up${about}`} disabled={first || busy} onClick={() => onMove(-1)} path="M8 13V3M4 7l4-4 4 4" />
            <Do does="down" label={`Move down${about}`} disabled={last || busy} onClick={() => onMove(1)} path="M8 3v10M4 9l4 4 4-4" />
            <Do
              does="edit"
              label={`Edit${about}`}
              disabled={busy || !message || message.large !== null}
              onClick={() => setEditing(true)}
              path="M3 13l.6-2.8L11 2.8l2.2 2.2-7.4 7.4z"
            />
            <Do does="withdraw" label={`Withdraw${about}`} disabled={busy} onClick={onWithdraw} path="M4 4l8 8M12 4l-8 8" />
          </div>
        </>
      )}
    </li>
  );
}

function Do(props: { does: string; label: string; disabled: boolean; onClick: () => void; path: string }) {
  const { does, label, disabled, onClick, path } = props;
  return (
    <button
      type="button"
      class="plain icon-button"
      data-does={does}
      aria-label={label}
      title={label.split(":")[0]}
      disabled={disabled}
      onClick={onClick}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true" class="icon outline">
        <path d={path} />
      </svg>
    </button>
  );
}

function Edit({ message, onDone }: { message: Message; onDone: () => void }) {
  const [text, setText] = useState(message.text);
  const [mode, setMode] = useState<Mode>(message.mode);
  const work = useWork();
  const id = useId();
  const save = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    const changes = { ...(text === message.text ? {} : { text }), ...(mode === message.mode ? {} : { when_busy: mode }) };
    if (Object.keys(changes).length === 0 || (await work.run(() => ask("PATCH", `/v1/messages/${message.id}`, changes)))) onDone();
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === "Escape") onDone();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void save(event);
  };
  return (
    <form class="queued-edit" onSubmit={(event) => void save(event)}>
      <label for={id} class="hidden">
        Message
      </label>
      <textarea
        id={id}
        value={text}
        rows={Math.min(8, text.split("\n").length + 1)}
        required
        autofocus
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={key}
        ref={(element) => element?.focus()}
      />
      {work.problem && <ErrorNote problem={work.problem} />}
      <div class="buttons">
        <select aria-label="What it does while a turn runs" value={mode} onChange={(event) => setMode(event.currentTarget.value as Mode)}>
          {Object.entries(MODES)
            .filter(([name]) => name !== "refuse")
            .map(([name, { short }]) => (
              <option key={name} value={name}>
                {short}
              </option>
            ))}
        </select>
        <button type="button" onClick={onDone}>
          Leave as it is
        </button>
        <button type="submit" class="primary" disabled={work.busy}>
          Save
        </button>
      </div>
    </form>
  );
}
