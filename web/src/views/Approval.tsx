/** A question of an agent, answered in place. */

import { useId, useState } from "preact/hooks";
import { post } from "../api";
import type { Option } from "../api";
import { announce } from "../announce";
import { clock, visible } from "../text";
import { ErrorNote, useWork } from "./parts";

interface Question {
  id: string;
  question: string;
  tool: string | null;
  options: Option[];
  deadline: number | null;
}

const denies = (option: Option): boolean => /reject|deny/.test(option.kind ?? option.id);

export function Approval({ asked, children }: { asked: Question; children?: preact.ComponentChildren }) {
  const work = useWork();
  const [note, setNote] = useState("");
  const heading = useId();
  const field = useId();
  const answer = async (decision: "allow" | "deny", option?: Option): Promise<void> => {
    const body = { decision, ...(option ? { option_id: option.id } : {}), ...(note.trim() ? { note: note.trim() } : {}) };
    if (await work.run(() => post(`/v1/permissions/${asked.id}`, body))) announce(decision === "allow" ? "Allowed" : "Denied");
  };
  const options = asked.options.length > 0 ? asked.options : [ALLOW, DENY];
  return (
    <section class="approval" aria-labelledby={heading} data-permission={asked.id}>
      <h2 id={heading}>
        Asks you
        {asked.tool && asked.tool !== "ask" && <bdi class="label">{visible(asked.tool)}</bdi>}
      </h2>
      {children}
      <p class="question" dir="auto">
        {visible(asked.question)}
      </p>
      <label for={field} class="hidden">
        A word to the agent
      </label>
      <input
        id={field}
        value={note}
        maxLength={4000}
        placeholder="A word to the agent (optional)"
        onInput={(event) => setNote(event.currentTarget.value)}
      />
      <div class="buttons">
        {options.map((option) => (
          <button
            key={option.id}
            type="button"
            class={denies(option) ? "" : option === options.find((each) => !denies(each)) ? "primary" : ""}
            disabled={work.busy}
            onClick={() => void answer(denies(option) ? "deny" : "allow", asked.options.length > 0 ? option : undefined)}
          >
            {visible(option.name ?? option.id)}
          </button>
        ))}
      </div>
      {asked.deadline !== null && <p class="field-hint">Answered by the host's rule at {clock(new Date(asked.deadline).toISOString())}.</p>}
      {work.problem && <ErrorNote problem={work.problem} />}
    </section>
  );
}

const ALLOW: Option = { id: "allow", name: "Allow", kind: "allow_once" };
const DENY: Option = { id: "deny", name: "Deny", kind: "reject_once" };
