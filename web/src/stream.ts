/** Following events: one connection, opened again after every loss with the cursor of the last event that was heard. */

import { signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import { address, get, Problem } from "./api";

/** How it stands with the host, as the streams and the requests find it. */
export const connection = signal<"connecting" | "online" | "offline" | "signed-out">("connecting");

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;
/** The host gives a sign of life every 15 seconds, which browsers don't show; so silence is asked after instead. */
const PROBE_MS = 20_000;
/** Browsers keep few connections to one host, for all tabs together: a hidden tab gives its own up after this time. */
const HIDDEN_MS = 5_000;

interface Heard {
  /** An event: its type, the cursor to go on from (empty for none), and its data. */
  event(type: string, cursor: string, data: unknown): void;
  /** The connection stands again; nothing was missed. */
  opened?(): void;
}

interface Options {
  path: string;
  query?: Record<string, string | number>;
  after: string | null;
  types: readonly string[];
  /** Whether to go on while nobody looks. */
  always?: ReadonlySignal<boolean>;
}

/** Follows one stream until it is closed. */
export class Follower {
  private source: EventSource | null = null;
  private waiting: number | undefined;
  private hiding: number | undefined;
  private probing: number | undefined;
  private wait = FIRST_WAIT_MS;
  private closed = false;
  private readonly unsubscribe: (() => void) | undefined;

  constructor(
    private readonly options: Options,
    private readonly heard: Heard,
  ) {
    document.addEventListener("visibilitychange", this.looked);
    addEventListener("online", this.hurry);
    if (this.wanted) this.open(); // else it was opened in the background, and begins when somebody looks
    this.unsubscribe = options.always?.subscribe((wanted) => {
      if (wanted && this.source === null) this.hurry();
    });
  }

  private get wanted(): boolean {
    return document.visibilityState === "visible" || Boolean(this.options.always?.value);
  }

  close(): void {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.looked);
    removeEventListener("online", this.hurry);
    this.unsubscribe?.();
    clearTimeout(this.hiding);
    this.drop();
  }

  private drop(): void {
    this.source?.close();
    this.source = null;
    clearTimeout(this.waiting);
    clearInterval(this.probing);
    this.waiting = undefined;
  }

  private readonly looked = (): void => {
    clearTimeout(this.hiding);
    if (document.visibilityState === "visible") {
      if (this.source === null) this.hurry();
    } else if (!this.wanted) {
      this.hiding = window.setTimeout(() => this.drop(), HIDDEN_MS);
    }
  };

  private readonly hurry = (): void => {
    if (this.closed || !this.wanted) return;
    this.wait = FIRST_WAIT_MS;
    this.drop();
    this.open();
  };

  private open(): void {
    if (this.closed) return;
    const { path, query, after } = this.options;
    const source = new EventSource(address(path, { ...query, after }));
    this.source = source;
    source.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      connection.value = "online";
      this.heard.opened?.();
    };
    source.onerror = () => this.lost(source);
    for (const type of this.options.types) source.addEventListener(type, (told) => this.tell(source, type, told));
    source.addEventListener("problem", () => this.lost(source));
    this.probing = window.setInterval(() => void this.probe(source), PROBE_MS);
  }

  private tell(source: EventSource, type: string, told: MessageEvent<string>): void {
    if (source !== this.source) return;
    if (told.lastEventId) this.options.after = told.lastEventId;
    this.heard.event(type, told.lastEventId, JSON.parse(told.data));
  }

  private lost(source: EventSource): void {
    if (source !== this.source || this.closed) return;
    this.drop();
    void this.look();
    this.waiting = window.setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(this.wait * 1.6, LONGEST_WAIT_MS);
  }

  /** Ask why the stream ended: a stream itself does not say. */
  private async look(): Promise<void> {
    try {
      await get("/v1/status");
    } catch (error) {
      if (!(error instanceof Problem) || this.closed) return;
      if (error.status === 401) {
        connection.value = "signed-out";
        this.drop();
      } else if (error.unreached || error.status >= 500) {
        connection.value = "offline";
      }
    }
  }

  /** A connection may be dead without a word, after the machine slept for instance. */
  private async probe(source: EventSource): Promise<void> {
    await this.look();
    if (connection.value === "offline") this.lost(source);
  }
}
