/** A turn: the messages that it answers, what the agent said and did, and how it ended. */

import { memo } from "preact/compat";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api";
import type { Event } from "../api";
import { markdown } from "../markdown";
import { senderOf } from "../state/conversation";
import type { Asked, Conversation, Large, Message, Piece, Said, Tool, Turn as TurnState } from "../state/conversation";
import { between, bytes, clock, duration, full, visible, written } from "../text";
import { Approval } from "./Approval";
import { ErrorNote, From, useWork } from "./parts";
import { Timeline } from "./Timeline";

/** Longer texts are shown plainly, and in part until somebody wants all of it. */
const FORMATTED_MAX = 120_000;
const PART = 20_000;
const RENDER_MS = 50;

interface TurnProps {
  turn: TurnState;
  conversation: Conversation;
  /** Changes whenever a message of the turn does. */
  stamp: string;
}

export const stampOf = (turn: TurnState, conversation: Conversation): string => {
  const steered = turn.pieces.filter((piece) => piece.kind === "steered").map((piece) => piece.message);
  const messages = [...turn.messages, ...steered].map((id) => conversation.messages.get(id));
  return messages.map((message) => `${message?.state}${message?.text.length}`).join();
};

export const Turn = memo(
  function Turn({ turn, conversation }: TurnProps) {
    const label = `Turn of ${clock(turn.from)}`;
    return (
      <article class={`turn turn-${turn.state} ${turn.rolledBack ? "rolled-back" : ""}`} aria-label={label} data-turn={turn.id}>
        {!turn.whole && <p class="mark">The beginning of this turn was not read.</p>}
        {turn.origin === "agent" && <p class="mark">The agent began this by itself</p>}
        {turn.messages.map((id) => (
          <Bubble key={id} message={conversation.messages.get(id)} />
        ))}
        <div class="answer">
          {turn.pieces.map((piece, place) => (
            <PieceView
              key={place}
              piece={piece}
              live={turn.state === "running" && place === turn.pieces.length - 1}
              conversation={conversation}
            />
          ))}
          <Ending turn={turn} />
        </div>
      </article>
    );
  },
  (before, after) => before.stamp === after.stamp && before.turn === after.turn,
);

export function Bubble({ message, apart }: { message: Message | undefined; apart?: boolean }) {
  if (!message) return <div class="bubble unknown">A message from earlier</div>;
  const named = senderOf(message);
  return (
    <div class={apart ? "bubble apart" : "bubble"} data-message={message.id}>
      <h2 class="hidden">Message{named ? ` from ${visible(named)}` : ""}</h2>
      {message.large ? (
        <Fetched large={message.large} what="message" read={(event) => event.data.text} />
      ) : (
        <Written text={message.text} />
      )}
      {message.files.length > 0 && (
        <ul class="files">
          {message.files.map((file, place) => (
            <li key={place}>{visible(file.name ?? file.path ?? "a file")}</li>
          ))}
        </ul>
      )}
      {apart && <p class="apart-state">{message.state === "withdrawn" ? "Withdrawn before it ran" : visible(message.state)}</p>}
      {message.error && <p class="apart-state">{visible(message.error.detail)}</p>}
      <p class="bubble-foot">
        <From message={message} />{" "}
        <time dateTime={message.at} title={full(message.at)}>
          {clock(message.at)}
        </time>
      </p>
    </div>
  );
}

function PieceView({ piece, live, conversation }: { piece: Piece; live: boolean; conversation: Conversation }) {
  switch (piece.kind) {
    case "text":
      return <Answer text={piece.text} live={live} />;
    case "thought":
      return <Thought piece={piece} live={live} />;
    case "tool":
      return <ToolView tool={piece} />;
    case "asked":
      return piece.state === "pending" ? <Approval asked={piece} /> : <Decided asked={piece} />;
    case "steered":
      return <Bubble message={conversation.messages.get(piece.message)} />;
  }
}

/** What the agent said. While it speaks, the text is parsed no more often than it can be. */
function Answer({ text, live }: { text: string; live: boolean }) {
  const [spoken, setSpoken] = useState(text);
  const newest = useRef(text);
  const cost = useRef(0);
  const timer = useRef<number | undefined>(undefined);
  newest.current = text;
  useEffect(() => {
    if (!live || timer.current !== undefined) return;
    const wait = Math.max(RENDER_MS, cost.current * 4);
    timer.current = window.setTimeout(() => {
      timer.current = undefined;
      setSpoken(newest.current);
    }, wait);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  const shown = live ? spoken : text;
  const tree = useMemo(() => {
    if (shown.length > FORMATTED_MAX) return null;
    const began = performance.now();
    const made = markdown(shown);
    cost.current = performance.now() - began;
    return made;
  }, [shown]);
  if (tree === null) return <LongText text={shown} />;
  return (
    <div class={live ? "said live" : "said"} dir="auto">
      {tree}
    </div>
  );
}

/** What a person wrote: as it was typed, unless there is code in it. */
function Written({ text }: { text: string }) {
  const tree = useMemo(() => (text.includes("```") && text.length <= FORMATTED_MAX ? markdown(text) : null), [text]);
  return tree ? <div class="said">{tree}</div> : <LongText text={text} />;
}

function LongText({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const part = all ? text : text.slice(0, PART);
  return (
    <>
      <div class="plain-text" dir="auto">
        {visible(part)}
      </div>
      {part.length < text.length && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          Show all of it ({bytes(text.length)})
        </button>
      )}
    </>
  );
}

/** Something large, which is fetched when somebody asks for it. */
function Fetched({ large, what, read }: { large: Large; what: string; read: (event: Event) => unknown }) {
  const [text, setText] = useState<string | null>(null);
  const work = useWork();
  if (text !== null) return <LongText text={text} />;
  const fetchIt = (): void =>
    void work.run(async () => {
      const value = read(await get<Event>(large.ref));
      setText(typeof value === "string" ? value : written(value));
    });
  return (
    <>
      <button type="button" class="more" disabled={work.busy} onClick={fetchIt}>
        Show this {what} ({bytes(large.bytes)})
      </button>
      {work.problem && <ErrorNote problem={work.problem} />}
    </>
  );
}

function Thought({ piece, live }: { piece: Said; live: boolean }) {
  const [open, setOpen] = useState(false);
  const took = between(piece.from, piece.to);
  return (
    <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="fold-name">{live ? "Thinking…" : "Thought"}</span>
        {!live && took > 500 && <span class="fold-time">{duration(took)}</span>}
      </summary>
      {open && <div class="plain-text">{visible(piece.text)}</div>}
    </details>
  );
}

const OUTCOMES: Record<string, string> = { completed: "done", failed: "failed", aborted: "cut off" };

/** The one line of a tool's input that says most. */
function glimpse(input: unknown): string {
  if (typeof input === "string") return input;
  if (typeof input !== "object" || input === null) return "";
  const fields = input as Record<string, unknown>;
  for (const name of ["command", "file_path", "path", "pattern", "query", "url", "description"]) {
    const value = fields[name];
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return value.join(" ");
  }
  return "";
}

function ToolView({ tool }: { tool: Tool }) {
  const [open, setOpen] = useState(false);
  const state = tool.outcome === null ? "running" : (OUTCOMES[tool.outcome] ?? tool.outcome);
  return (
    <details class={`fold tool tool-${tool.outcome ?? "running"}`} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="fold-name">
          <bdi>{visible(tool.name)}</bdi>
        </span>
        <code class="glimpse">{visible(glimpse(tool.input)).split("\n")[0]?.slice(0, 160)}</code>
        <span class="fold-time">
          {visible(state)}
          {tool.to && ` · ${duration(between(tool.from, tool.to))}`}
        </span>
      </summary>
      {open && (
        <div class="tool-body">
          <Value name="Input" value={tool.input} />
          {tool.large ? (
            <Fetched large={tool.large} what="output" read={(event) => event.data.output ?? event.data.input} />
          ) : (
            <Value name="Output" value={tool.output} />
          )}
        </div>
      )}
    </details>
  );
}

function Value({ name, value }: { name: string; value: unknown }) {
  if (value === undefined || value === null || value === "") return null;
  const text = written(value);
  return (
    <>
      <h3>{name}</h3>
      <pre tabIndex={0} dir="ltr">
        {text.length > PART ? `${text.slice(0, PART)}\n… ${bytes(text.length - PART)} more` : text}
      </pre>
    </>
  );
}

function Decided({ asked }: { asked: Asked }) {
  const verdict = { allow: "Allowed", deny: "Denied", expired: "No longer asked", pending: "" }[asked.state] ?? asked.state;
  const option = asked.options.find((each) => each.id === asked.option);
  return (
    <div class={`decided decided-${asked.state}`}>
      <p>
        <strong>{verdict}</strong>
        {option?.name && ` (${visible(option.name)})`}: <bdi>{visible(asked.question)}</bdi>
        {asked.note && <span class="note"> “{visible(asked.note)}”</span>}
      </p>
    </div>
  );
}

const ENDINGS: Record<string, string> = {
  cancelled: "Cancelled. What was said until then is kept.",
  interrupted: "The host went down in the middle of this turn, so nobody knows how it would have ended.",
};

const TROUBLES: Record<string, string> = {
  agent_failed: "The agent failed",
  agent_unavailable: "The agent could not be started",
};

function Ending({ turn }: { turn: TurnState }) {
  const [timeline, setTimeline] = useState(false);
  const id = useId();
  if (turn.state === "running") {
    return (
      <>
        {turn.pieces.length === 0 && (
          <p class="waiting">
            <span class="hidden">The agent works</span>
            <span class="dots" aria-hidden="true">
              <i />
              <i />
              <i />
            </span>
          </p>
        )}
        {turn.stalled && <p class="warn-note">Nothing was heard for a while. {visible(turn.stalled)}</p>}
        {turn.cancelling && <p class="mark">Cancelling…</p>}
      </>
    );
  }
  const ending = turn.rolledBack ? "Taken back: this turn is no longer part of the conversation." : ENDINGS[turn.state];
  return (
    <>
      {turn.error && (
        <div class="error-note">
          <p>
            <strong>{TROUBLES[turn.error.code] ?? "This turn failed"}.</strong> {visible(turn.error.detail)}
          </p>
        </div>
      )}
      {ending && <p class="end-note">{ending}</p>}
      <footer class="turn-foot">
        {turn.whole && turn.to && (
          <button
            type="button"
            class="plain"
            aria-expanded={timeline}
            aria-controls={id}
            onClick={() => setTimeline(!timeline)}
            title="Timeline of this turn"
          >
            {duration(between(turn.from, turn.to))}
          </button>
        )}
        <UsageNote turn={turn} />
        <Copy turn={turn} />
      </footer>
      <div id={id}>{timeline && <Timeline turn={turn} />}</div>
    </>
  );
}

function UsageNote({ turn }: { turn: TurnState }) {
  const { usage } = turn;
  if (!usage || (usage.input_tokens === 0 && usage.output_tokens === 0)) return null;
  const cost = usage.cost_usd > 0 ? ` · $${usage.cost_usd < 0.01 ? usage.cost_usd.toFixed(4) : usage.cost_usd.toFixed(2)}` : "";
  return (
    <span>
      {usage.input_tokens.toLocaleString()} in · {usage.output_tokens.toLocaleString()} out tokens{cost}
    </span>
  );
}

function Copy({ turn }: { turn: TurnState }) {
  const [done, setDone] = useState(false);
  const text = turn.pieces.map((piece) => (piece.kind === "text" ? piece.text : "")).join("");
  if (!text || !("clipboard" in navigator)) return null;
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="plain" onClick={() => void copy()}>
      {done ? "Copied" : "Copy answer"}
    </button>
  );
}
