/** A conversation as the fold of a session's events: what was said, in which turn, with which tools. */

import type { Event, Mode, Option, Trouble, Usage } from "../api";

export interface Large {
  ref: string;
  bytes: number;
}

export interface Message {
  id: string;
  text: string;
  large: Large | null;
  files: { name?: string; path?: string }[];
  mode: Mode;
  state: string;
  sender: string | null;
  at: string;
  sequence: number;
  error: Trouble | null;
  /** It was handed to the running turn, which has not taken it yet. */
  steering: boolean;
  /** The agent did not take it into its turn, so it waits on. */
  declined: boolean;
  resumed: boolean;
}

/** The tokens of a signed-in page and of the machine's own command line: they name nobody. */
const OWN_NAMES = ["browser", "local"];

/** Who sent a message, where that names somebody. */
export const senderOf = ({ sender }: Message): string | null => (sender && !OWN_NAMES.includes(sender) ? sender : null);

export interface Tool {
  kind: "tool";
  id: string;
  name: string;
  input: unknown;
  output: unknown;
  large: Large | null;
  outcome: string | null;
  from: string;
  to: string | null;
}

export interface Asked {
  kind: "asked";
  id: string;
  question: string;
  tool: string | null;
  options: Option[];
  deadline: number | null;
  state: "pending" | "allow" | "deny" | "expired";
  note: string | null;
  by: string | null;
  option: string | null;
  from: string;
  to: string | null;
}

export interface Said {
  kind: "text" | "thought";
  text: string;
  from: string;
  to: string;
}

export interface Steered {
  kind: "steered";
  message: string;
  from: string;
}

export type Piece = Said | Tool | Asked | Steered;

export interface Turn {
  kind: "turn";
  id: string;
  messages: string[];
  origin: string;
  delivered: string;
  state: string;
  from: string;
  to: string | null;
  pieces: Piece[];
  error: Trouble | null;
  usage: Usage | null;
  cancelling: string | null;
  stalled: string | null;
  rolledBack: boolean;
  /** Its beginning is among the events that were read. */
  whole: boolean;
  sequence: number;
}

export interface Mark {
  kind: "mark";
  what: "cleared" | "stopped" | "resumed";
  reason: string | null;
  at: string;
  sequence: number;
}

export interface Apart {
  kind: "apart";
  message: string;
  sequence: number;
}

export type Item = Turn | Mark | Apart;

export const sequenceOf = (cursor: string): number => Number(cursor.slice(cursor.lastIndexOf(":") + 1));

/**
 * All that is known of a conversation. Its lists are changed in place, and `version` tells that they were; a turn, a piece
 * or a message that changes is replaced by another one, so that views see by identity what is new.
 */
export class Conversation {
  items: Item[] = [];
  messages = new Map<string, Message>();
  /** The ids of what waits, in order. */
  queue: string[] = [];
  version = 0;
  /** By id, where a turn stands among the items. */
  private places = new Map<string, number>();

  /** The turn that runs, if one does. */
  get running(): Turn | null {
    for (let place = this.items.length - 1; place >= 0; place--) {
      const item = this.items[place]!;
      if (item.kind === "turn") return item.state === "running" ? item : null;
    }
    return null;
  }

  get pending(): Asked[] {
    const asked = this.running?.pieces.filter((piece): piece is Asked => piece.kind === "asked") ?? [];
    return asked.filter((piece) => piece.state === "pending");
  }

  /** Messages that belong to something shown, but were accepted before the events that were read. */
  get missing(): string[] {
    const wanted = [...this.queue];
    for (const item of this.items) {
      if (item.kind === "turn") wanted.push(...item.messages);
    }
    return wanted.filter((id) => !this.messages.has(id));
  }

  /** Take up the next event. */
  add(event: Event): void {
    this.version += 1;
    const [family] = event.type.split(".");
    if (event.type === "message.accepted") this.accepted(event);
    else if (family === "message" || event.type.startsWith("turn.steer")) this.aboutMessage(event);
    else if (family === "turn" || family === "permission") this.aboutTurn(event);
    else if (event.type === "queue.reordered") this.queue = [...event.data.order];
    else if (event.type === "session.cleared") this.mark(event, "cleared", event.data.reason ?? null);
    else if (event.type === "session.stopped") this.mark(event, "stopped", null);
    else if (event.type === "session.resumed") this.mark(event, "resumed", null);
  }

  /** What a message said, learnt from an event that is older than what is shown. */
  learn(event: Event): void {
    if (event.message_id === undefined) return;
    const known = this.messages.get(event.message_id);
    if (event.type === "message.accepted" && known === undefined) {
      this.messages.set(event.message_id, messageOf(event));
    } else if (event.type === "message.edited" && known !== undefined && known.sequence < sequenceOf(event.cursor)) {
      this.change(known.id, edited(event));
    }
    this.version += 1;
  }

  private mark(event: Event, what: Mark["what"], reason: string | null): void {
    this.items.push({ kind: "mark", what, reason, at: event.at, sequence: sequenceOf(event.cursor) });
  }

  private accepted(event: Event): void {
    const message = messageOf(event);
    this.messages.set(message.id, message);
    const place = typeof event.data.place === "number" ? event.data.place : this.queue.length;
    this.queue.splice(place, 0, message.id);
  }

  private change(id: string, changes: Partial<Message>): void {
    const message = this.messages.get(id);
    if (message) this.messages.set(id, { ...message, ...changes });
  }

  private aboutMessage(event: Event): void {
    const id = event.message_id ?? "";
    switch (event.type) {
      case "message.edited":
        this.change(id, edited(event));
        break;
      case "message.requeued":
        this.queue = [id, ...this.queue.filter((each) => each !== id)];
        this.change(id, { state: "queued", resumed: true });
        break;
      case "message.ended":
        this.ended(event, id);
        break;
      case "turn.steer_requested":
        this.change(id, { steering: true });
        break;
      case "turn.steered":
        this.steered(event, id);
        break;
      case "turn.steer_declined":
        this.change(id, { steering: false, declined: true });
        break;
    }
  }

  private ended(event: Event, id: string): void {
    const waited = this.queue.includes(id);
    this.queue = this.queue.filter((each) => each !== id);
    this.change(id, { state: event.data.state, error: event.data.error ?? null, steering: false });
    if (waited) this.items.push({ kind: "apart", message: id, sequence: sequenceOf(event.cursor) });
  }

  private steered(event: Event, id: string): void {
    this.queue = this.queue.filter((each) => each !== id);
    this.change(id, { state: "running", steering: false });
    const turn = this.turn(event);
    turn.pieces.push({ kind: "steered", message: id, from: event.at });
  }

  private aboutTurn(event: Event): void {
    const turn = this.turn(event);
    switch (event.type) {
      case "turn.started":
        this.started(turn, event);
        break;
      case "turn.text":
      case "turn.thought":
        say(turn, event.type === "turn.text" ? "text" : "thought", event);
        break;
      case "turn.tool_started":
        turn.pieces.push(toolOf(event));
        break;
      case "turn.tool_ended":
        endTool(turn, event);
        break;
      case "turn.usage":
        turn.usage = event.data.usage;
        break;
      case "turn.stalled":
        turn.stalled = event.data.detail;
        break;
      case "turn.cancel_requested":
        turn.cancelling = event.data.reason;
        turn.rolledBack = Boolean(event.data.rollback);
        break;
      case "turn.ended":
        Object.assign(turn, { state: event.data.state, to: event.at, error: event.data.error ?? null });
        turn.usage = event.data.usage ?? turn.usage;
        break;
      case "permission.requested":
        turn.pieces.push(askedOf(event));
        break;
      case "permission.answered":
      case "permission.expired":
        answer(turn, event);
        break;
    }
  }

  private started(turn: Turn, event: Event): void {
    turn.messages = [...event.data.message_ids];
    turn.origin = event.data.origin ?? "message";
    turn.delivered = event.data.delivered_as ?? "turn";
    turn.whole = true;
    this.queue = this.queue.filter((id) => !turn.messages.includes(id));
    for (const id of turn.messages) this.change(id, { state: "running" });
  }

  /** The turn that an event is about, anew, to be changed; one of which nothing is known if its start was not read. */
  private turn(event: Event): Turn {
    const id = event.turn_id ?? "";
    const place = this.places.get(id) ?? this.items.length;
    const known = this.items[place];
    const turn = known?.kind === "turn" ? { ...known, pieces: [...known.pieces] } : newTurn(id, event);
    this.places.set(id, place);
    this.items[place] = turn;
    if (event.type !== "turn.started" && event.type !== "turn.ended" && event.type !== "turn.stalled") turn.stalled = null;
    return turn;
  }
}

function newTurn(id: string, event: Event): Turn {
  return {
    kind: "turn",
    id,
    messages: [],
    origin: "message",
    delivered: "turn",
    state: "running",
    from: event.at,
    to: null,
    pieces: [],
    error: null,
    usage: null,
    cancelling: null,
    stalled: null,
    rolledBack: false,
    whole: false,
    sequence: sequenceOf(event.cursor),
  };
}

function messageOf(event: Event): Message {
  const { data } = event;
  const large = largeOf(data);
  return {
    id: event.message_id ?? "",
    text: large ? "" : data.text,
    large,
    files: data.files ?? [],
    mode: data.when_busy ?? "queue",
    state: "queued",
    sender: data.sender ?? null,
    at: event.at,
    sequence: sequenceOf(event.cursor),
    error: null,
    steering: false,
    declined: false,
    resumed: false,
  };
}

function edited(event: Event): Partial<Message> {
  const large = largeOf(event.data);
  const { text, when_busy } = event.data;
  return { ...(large || text !== undefined ? { text: large ? "" : text, large } : {}), ...(when_busy ? { mode: when_busy } : {}) };
}

function largeOf(data: { ref?: unknown; bytes?: unknown }): Large | null {
  return typeof data.ref === "string" && typeof data.bytes === "number" ? { ref: data.ref, bytes: data.bytes } : null;
}

function say(turn: Turn, kind: "text" | "thought", event: Event): void {
  const last = turn.pieces.at(-1);
  if (last?.kind === kind) {
    turn.pieces[turn.pieces.length - 1] = { ...last, text: last.text + event.data.text, to: event.at };
  } else {
    turn.pieces.push({ kind, text: event.data.text ?? "", from: event.at, to: event.at });
  }
}

function toolOf(event: Event): Tool {
  const large = largeOf(event.data);
  const { tool_id, name, input } = event.data;
  return {
    kind: "tool",
    id: tool_id ?? "",
    name: name ?? "tool",
    input,
    output: undefined,
    large,
    outcome: null,
    from: event.at,
    to: null,
  };
}

function endTool(turn: Turn, event: Event): void {
  const large = largeOf(event.data);
  const open = turn.pieces.filter((piece): piece is Tool => piece.kind === "tool" && piece.outcome === null);
  const tool = open.find((piece) => piece.id === event.data.tool_id);
  if (!tool) return;
  turn.pieces[turn.pieces.indexOf(tool)] = {
    ...tool,
    outcome: event.data.outcome,
    output: event.data.output,
    large: large ?? tool.large,
    to: event.at,
  };
}

function askedOf(event: Event): Asked {
  return {
    kind: "asked",
    id: event.data.permission_id,
    question: event.data.question ?? "",
    tool: event.data.tool ?? null,
    options: event.data.options ?? [],
    deadline: event.data.deadline_at ?? null,
    state: "pending",
    note: null,
    by: null,
    option: null,
    from: event.at,
    to: null,
  };
}

function answer(turn: Turn, event: Event): void {
  const asked = turn.pieces.find((piece) => piece.kind === "asked" && piece.id === event.data.permission_id);
  if (asked?.kind !== "asked") return;
  turn.pieces[turn.pieces.indexOf(asked)] = {
    ...asked,
    state: event.type === "permission.expired" ? "expired" : event.data.decision,
    note: event.data.note ?? null,
    by: event.data.by ?? null,
    option: event.data.option_id ?? null,
    to: event.at,
  };
}
