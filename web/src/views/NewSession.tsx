/** Starting a session. */

import { useId, useRef } from "preact/hooks";
import { post } from "../api";
import type { Session } from "../api";
import { navigate } from "../routing";
import { agents } from "../state/board";
import { visible } from "../text";
import { Dialog, ErrorNote, useWork } from "./parts";

export function NewSession({ onClose }: { onClose: () => void }) {
  const work = useWork();
  const form = useRef<HTMLFormElement>(null);
  const ids = { agent: useId(), key: useId(), title: useId(), cwd: useId(), keyHint: useId() };
  const start = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    const fields = new FormData(form.current ?? undefined);
    const given = [...fields].filter(([, value]) => typeof value === "string" && value.trim() !== "");
    await work.run(async () => {
      const session = await post<Session>("/v1/sessions", Object.fromEntries(given));
      onClose();
      navigate(session.id);
    });
  };
  const usable = agents.value.filter((agent) => agent.available);
  const missing = agents.value.filter((agent) => !agent.available);
  return (
    <Dialog title="New session" onClose={onClose}>
      <form ref={form} onSubmit={(event) => void start(event)} class="form">
        <label for={ids.agent}>Agent</label>
        <select id={ids.agent} name="agent" required autofocus>
          {usable.map((agent) => (
            <option key={agent.name} value={agent.name}>
              {visible(agent.name)}
            </option>
          ))}
          {missing.map((agent) => (
            <option key={agent.name} value={agent.name} disabled>
              {visible(agent.name)} (not on this machine)
            </option>
          ))}
        </select>
        <label for={ids.title}>Title</label>
        <input id={ids.title} name="title" maxLength={500} autoComplete="off" />
        <label for={ids.key}>Key</label>
        <input id={ids.key} name="key" maxLength={256} autoComplete="off" aria-describedby={ids.keyHint} />
        <p id={ids.keyHint} class="field-hint">
          A name for scripts and bots to find it by, such as telegram:42. It never changes.
        </p>
        <label for={ids.cwd}>Directory</label>
        <input id={ids.cwd} name="cwd" placeholder="a directory of its own" autoComplete="off" spellcheck={false} />
        {work.problem && <ErrorNote problem={work.problem} />}
        <div class="buttons">
          <button type="button" onClick={onClose}>
            Never mind
          </button>
          <button type="submit" class="primary" disabled={work.busy}>
            Start
          </button>
        </div>
      </form>
    </Dialog>
  );
}
