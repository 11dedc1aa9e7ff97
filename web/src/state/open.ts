/** The session that is open: its newest events first, older ones when they are looked at, new ones as they happen. */

import { signal } from "@preact/signals";
import { get, Problem, sessionPath } from "../api";
import type { Event, Page, Receipt, Session } from "../api";
import { Follower } from "../stream";
import { Conversation, sequenceOf } from "./conversation";

const FIRST_EVENTS = 200;
const OLDER_EVENTS = 1000;
/** Larger data is fetched when somebody asks for it. A piece of an answer is never larger (64 Ki characters). */
const INLINE_MAX = 300_000;
/** Who reads the newest keeps so many items; the older ones are read again when somebody scrolls back. */
const KEPT_MAX = 240;
const KEPT = 120;

const TYPES = [
  "session.created session.updated session.status session.cleared session.stopped session.resumed session.deleted",
  "queue.reordered queue.paused queue.continued message.accepted message.edited message.withdrawn message.requeued message.ended",
  "turn.started turn.text turn.thought turn.tool_started turn.tool_ended turn.usage turn.stalled turn.steer_requested",
  "turn.steered turn.steer_declined turn.cancel_requested turn.ended",
  "permission.requested permission.answered permission.expired gap snapshot",
]
  .join(" ")
  .split(" ");

/** A session that a person looks at. Close it when they no longer do. */
export class OpenSession {
  readonly session = signal<Session | null>(null);
  readonly conversation = signal(new Conversation());
  /** Raised at most once a frame, after the conversation has changed. */
  readonly version = signal(0);
  readonly problem = signal<Problem | null>(null);
  readonly loading = signal(true);
  readonly older = signal<"none" | "some" | "loading">("none");
  readonly receipts = signal(new Map<string, Receipt>());
  readonly deleted = signal(false);

  private events: Event[] = [];
  private earlier: string | null = null;
  private last = 0;
  private follower: Follower | null = null;
  private closed = false;
  private frame = 0;
  private soon: number | undefined;

  constructor(readonly id: string) {
    void this.begin();
  }

  close(): void {
    this.closed = true;
    this.follower?.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.soon);
  }

  /** Read what is there, then follow. Called again when the host can't go on from where this page was. */
  private async begin(): Promise<void> {
    this.follower?.close();
    try {
      const path = sessionPath(this.id);
      const [session, page] = await Promise.all([
        get<Session>(path),
        get<Page<Event>>(`${path}/events`, { before: "end", limit: FIRST_EVENTS, inline_max: INLINE_MAX }),
      ]);
      if (this.closed) return;
      this.session.value = session;
      this.events = page.items;
      this.earlier = page.next_cursor;
      this.last = sequenceOf(page.items.at(-1)?.cursor ?? ":0");
      await this.toTheBeginningOfATurn();
      this.refold();
      this.problem.value = null;
      this.follow(page.items.at(-1)?.cursor ?? null);
      void this.refresh();
    } catch (error) {
      this.fail(error);
    } finally {
      this.loading.value = false;
    }
  }

  private fail(error: unknown): void {
    if (!(error instanceof Problem)) throw error;
    if (this.closed) return;
    if (error.unreached || error.status >= 500) {
      this.soon = window.setTimeout(() => void this.begin(), 1500);
    }
    this.problem.value = error;
  }

  private follow(after: string | null): void {
    const path = `${sessionPath(this.id)}/events`;
    this.follower = new Follower(
      { path, query: { inline_max: INLINE_MAX }, after, types: TYPES },
      {
        event: (type, _cursor, data) => this.hear(type, data as Event),
        opened: () => this.refreshSoon(),
      },
    );
  }

  private hear(type: string, event: Event): void {
    if (type === "gap" || type === "snapshot") {
      void this.begin();
      return;
    }
    const sequence = sequenceOf(event.cursor);
    if (sequence <= this.last) return; // heard already, before the connection was lost
    this.last = sequence;
    this.events.push(event);
    this.conversation.value.add(event);
    if (type === "session.status") this.patch({ status: event.data.status });
    if (type === "session.updated") this.patch(event.data.changes);
    if (type === "session.deleted") this.deleted.value = true;
    else if (!type.startsWith("turn.t")) this.refreshSoon();
    this.show();
  }

  private patch(changes: Partial<Session>): void {
    const session = this.session.value;
    if (!session) return;
    const labels = { ...session.labels };
    for (const [name, value] of Object.entries(changes.labels ?? {})) {
      if (value === null) delete labels[name];
      else labels[name] = value;
    }
    this.session.value = { ...session, ...changes, labels };
  }

  private show(): void {
    if (this.frame) return;
    // A hidden page gets no frames, and its title and notifications need none of this.
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.version.value += 1;
    });
  }

  private refreshSoon(): void {
    clearTimeout(this.soon);
    this.soon = window.setTimeout(() => void this.refresh(), 120);
  }

  /** What no event says: why a message waits, and how the session is as a whole. */
  private async refresh(): Promise<void> {
    if (this.deleted.value) return;
    try {
      const path = sessionPath(this.id);
      const [session, queue] = await Promise.all([get<Session>(path), get<Page<Receipt>>(`${path}/queue`)]);
      if (this.closed) return;
      this.session.value = session;
      this.receipts.value = new Map(queue.items.map((receipt) => [receipt.id, receipt]));
      const queued = queue.items.map((receipt) => receipt.id);
      const { value: conversation } = this.conversation;
      if (session.sequence <= this.last) conversation.queue = queued;
      await this.learnMissing();
      this.show();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.code === "session_not_found") this.deleted.value = true;
    }
  }

  // Older events

  private refold(): void {
    const { value: before } = this.conversation;
    const conversation = new Conversation();
    for (const event of this.events) conversation.add(event);
    for (const [id, message] of before.messages) {
      if (!conversation.messages.has(id)) conversation.messages.set(id, message);
    }
    const waiting = [...this.receipts.value.keys()];
    conversation.queue = [...new Set([...waiting.filter((id) => conversation.queue.includes(id)), ...conversation.queue])];
    this.conversation.value = conversation;
    this.older.value = this.earlier ? "some" : "none";
    this.version.value += 1;
  }

  /** Read the events before those that are here. */
  async readOlder(): Promise<void> {
    if (this.older.value !== "some") return;
    this.older.value = "loading";
    try {
      await this.readPage();
      await this.toTheBeginningOfATurn();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
    this.refold();
    await this.learnMissing();
  }

  private async readPage(): Promise<void> {
    const query = { before: this.earlier, limit: OLDER_EVENTS, inline_max: INLINE_MAX };
    const page = await get<Page<Event>>(`${sessionPath(this.id)}/events`, query);
    const { cursor } = this.events[0]!;
    this.events = [...page.items.filter((event) => sequenceOf(event.cursor) < sequenceOf(cursor)), ...this.events];
    this.earlier = page.next_cursor;
  }

  /** A turn is shown from its start, however much it has said. */
  private async toTheBeginningOfATurn(): Promise<void> {
    while (this.earlier && !this.closed && cutTurn(this.events)) await this.readPage();
  }

  /** Let go of what was said long ago: it is read again when somebody scrolls back to it. */
  trim(): void {
    const { items } = this.conversation.value;
    if (items.length <= KEPT_MAX) return;
    const first = items[items.length - KEPT]!.sequence;
    const place = this.events.findIndex((event) => sequenceOf(event.cursor) >= first);
    this.events = this.events.slice(place);
    this.earlier = this.events[0]!.cursor;
    this.refold();
  }

  /** A message may have waited for so long that its words are far behind. */
  private async learnMissing(): Promise<void> {
    const { value: conversation } = this.conversation;
    const wanted = new Set(conversation.missing);
    let before = this.events[0]?.cursor ?? null;
    let found: Event[] = [];
    while (before && wanted.size > 0 && !this.closed) {
      const query = { before, limit: OLDER_EVENTS, inline_max: INLINE_MAX, types: "message.accepted,message.edited" };
      const page: Page<Event> = await get(`${sessionPath(this.id)}/events`, query);
      found = [...page.items, ...found];
      for (const event of page.items) if (event.type === "message.accepted") wanted.delete(event.message_id ?? "");
      before = page.next_cursor;
    }
    const unknown = new Set(conversation.missing);
    for (const event of found) if (event.message_id && unknown.has(event.message_id)) conversation.learn(event);
    if (found.length > 0) this.show();
  }
}

/** Whether the first turn of these events began before them. */
function cutTurn(events: Event[]): boolean {
  const first = events.find((event) => event.turn_id !== undefined && event.type !== "message.ended");
  return first !== undefined && first.type !== "turn.started";
}
