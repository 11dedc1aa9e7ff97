/** What a person has seen of each session, kept in this browser only. */

import { signal } from "@preact/signals";
import type { Session } from "../api";

const KEY = "antiphon.seen";
const KEPT_MAX = 2000;

interface Memory {
  /** When this browser first looked: what ended before is not new to anybody. */
  since: string;
  /** By session, how many turns had ended when it was looked at last. */
  turns: Record<string, number>;
}

const memory = signal<Memory>(load());

function load(): Memory {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "") as Partial<Memory>;
    if (typeof kept.since === "string" && typeof kept.turns === "object") return { since: kept.since, turns: kept.turns };
  } catch {
    // nothing was kept, or by somebody else: begin anew
  }
  return { since: "", turns: {} };
}

function save(next: Memory): void {
  memory.value = next;
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // a browser that keeps nothing shows marks until it is closed
  }
}

const ended = (session: Session): number => session.turns - (session.turn_id ? 1 : 0);

export const seen = {
  begin(): void {
    if (!memory.value.since) save({ since: new Date().toISOString(), turns: {} });
  },

  /** Whether something ended in a session that this browser has not shown. */
  unread(session: Session): boolean {
    const { since, turns } = memory.value;
    const known = turns[session.id];
    return known === undefined ? ended(session) > 0 && since !== "" && session.active_at > since : ended(session) > known;
  },

  /** A person looks at a session now. */
  look(session: Session): void {
    const { since, turns } = memory.value;
    if (turns[session.id] === ended(session)) return;
    const rest = Object.entries(turns).filter(([id]) => id !== session.id);
    save({ since, turns: Object.fromEntries([...rest.slice(-KEPT_MAX), [session.id, ended(session)]]) });
  },
};

addEventListener("storage", (event) => {
  if (event.key === KEY) memory.value = load();
});
