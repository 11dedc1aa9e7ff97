/** Writing a message, and choosing what it does while a turn runs. */

import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { newKey, post, Problem, sessionPath } from "../api";
import type { Mode, Session } from "../api";
import { agents } from "../state/board";
import type { Turn } from "../state/conversation";
import { MODES } from "./modes";
import { ErrorNote, useWork } from "./parts";

const draftKey = (id: string): string => `antiphon.draft.${id}`;
/** On a phone Enter makes a line; there is a button to send. */
const fingers = matchMedia("(pointer: coarse)");

/** The key was spent: so the message was accepted, though that was not heard, in another mode than it is sent in now. */
function unlessAccepted(error: unknown): void {
  if (!(error instanceof Problem && error.code === "idempotency_key_reused")) throw error;
}

interface Props {
  session: Session;
  running: Turn | null;
  version: number;
  onSent: () => void;
}

export function Composer({ session, running, onSent }: Props) {
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey(session.id)) ?? "");
  const [mode, setMode] = useState<Mode | null>(null);
  const sending = useWork();
  const cancelling = useWork();
  const area = useRef<HTMLTextAreaElement>(null);
  /** The same text is sent again under the same key, so that it is one message however often the line is lost. */
  const attempt = useRef<{ text: string; key: string } | null>(null);
  const chosen = mode ?? session.when_busy ?? "queue";

  useEffect(() => {
    sessionStorage.setItem(draftKey(session.id), text);
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 260)}px`;
  }, [text]);

  const send = async (): Promise<void> => {
    if (!text.trim() || sending.busy) return;
    if (attempt.current?.text !== text) attempt.current = { text, key: newKey() };
    const { key } = attempt.current;
    const body = { text, when_busy: chosen };
    const path = `${sessionPath(session.id)}/messages`;
    if (await sending.run(() => post(path, body, { "Idempotency-Key": key }).catch(unlessAccepted))) {
      attempt.current = null;
      setText("");
      onSent();
      announce("Sent");
    }
    area.current?.focus();
  };
  const cancel = async (): Promise<void> => {
    if (!running) return;
    if (await cancelling.run(() => post(`/v1/turns/${running.id}/cancel`))) announce("The turn was cancelled");
    area.current?.focus();
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || fingers.matches) return;
    event.preventDefault();
    void send();
  };
  const agent = agents.value.find((each) => each.name === session.agent);
  const cannot = (chosen === "steer" && agent?.capabilities.steer === false) || (chosen === "rollback" && agent?.capabilities.rollback === false);

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {sending.problem && <ErrorNote problem={sending.problem} />}
      {cancelling.problem && <ErrorNote problem={cancelling.problem} />}
      <label for="message" class="hidden">
        Message
      </label>
      <textarea
        id="message"
        ref={area}
        rows={1}
        value={text}
        placeholder={running ? "Write on…" : "Write a message"}
        aria-describedby="mode-hint"
        onInput={(event) => {
          setText(event.currentTarget.value);
          sending.forget();
        }}
        onKeyDown={key}
      />
      <div class="composer-foot">
        <label for="mode">While a turn runs</label>
        <select id="mode" value={chosen} onChange={(event) => setMode(event.currentTarget.value as Mode)}>
          {Object.entries(MODES).map(([name, { short }]) => (
            <option key={name} value={name}>
              {short}
            </option>
          ))}
        </select>
        <span id="mode-hint" class="mode-hint">
          {cannot ? `${session.agent} can't do that: ${chosen === "steer" ? "it waits" : "the answer so far stays"}` : MODES[chosen].long}
        </span>
        <span class="spring" />
        {running && (
          <button type="button" class="cancel" disabled={cancelling.busy || running.cancelling !== null} onClick={() => void cancel()}>
            {cancelling.busy || running.cancelling !== null ? "Cancelling…" : "Cancel turn"}
          </button>
        )}
        <button type="submit" class="primary" disabled={sending.busy || !text.trim()}>
          Send
        </button>
      </div>
    </form>
  );
}
