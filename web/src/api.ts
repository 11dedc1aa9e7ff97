/** The host's HTTP interface, as far as the page needs it. The browser's cookie says who asks. */

export type Status = "starting" | "idle" | "running" | "asking" | "stalled" | "errored" | "dormant" | "stopped";
export type Mode = "queue" | "steer" | "collect" | "interrupt" | "rollback" | "refuse";

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
}

export interface Trouble {
  code: string;
  detail: string;
}

export interface Session {
  id: string;
  key: string | null;
  generation: number;
  sequence: number;
  status: Status;
  agent: string;
  cwd: string | null;
  model: string | null;
  title: string | null;
  labels: Record<string, string>;
  when_busy: Mode | null;
  turn_id: string | null;
  queued: number;
  paused_at: string | null;
  turns: number;
  created_at: string;
  active_at: string;
}

export interface Receipt {
  id: string;
  when_busy: Mode;
  position: number | null;
  waiting_for: string | null;
}

export interface Option {
  id: string;
  name?: string;
  kind?: string;
}

export interface Permission {
  id: string;
  session_id: string;
  session_key: string | null;
  turn_id: string;
  question: string;
  tool: string | null;
  options: Option[];
  deadline_at: string | null;
}

export interface Agent {
  name: string;
  available: boolean;
  missing: string | null;
  capabilities: Record<string, boolean>;
}

/** An event of a session. `data` is as docs/reference/events.md says; where it is large, what is short of it, with `ref`. */
export interface Event {
  cursor: string;
  session_id: string;
  generation: number;
  turn_id?: string;
  message_id?: string;
  type: string;
  at: string;
  // What an event holds depends on its type, and newer hosts may add to it, so nobody can say more of it here.
  data: any;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** A refusal of the host (RFC 9457), or that it was not reached: then `status` is 0. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    detail: string,
  ) {
    super(detail);
  }

  get unreached(): boolean {
    return this.status === 0;
  }
}

type Query = Record<string, string | number | string[] | null | undefined>;

/** A path with its query. Values that are null or undefined are left out; lists are repeated. */
export function address(path: string, query: Query = {}): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") pairs.append(name, String(each));
    }
  }
  const text = pairs.toString();
  return text ? `${path}?${text}` : path;
}

export const sessionPath = (id: string): string => `/v1/sessions/${encodeURIComponent(id)}`;

/**
 * Ask the host for something.
 * @throws {Problem} It refused, or was not reached.
 */
export async function ask<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new Problem(0, "unreached", "The host was not reached", "The host does not answer. It may be restarting.");
  }
  if (answer.status === 204) return undefined as T;
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text) as T;
  throw problemOf(answer.status, text);
}

function problemOf(status: number, text: string): Problem {
  try {
    const told = JSON.parse(text) as { code: string; title: string; detail: string };
    return new Problem(status, told.code, told.title, told.detail);
  } catch {
    return new Problem(status, "unknown", "The host did not understand", `It answered with status ${status}.`);
  }
}

export const get = <T>(path: string, query?: Query): Promise<T> => ask<T>("GET", address(path, query));
export const post = <T>(path: string, body?: unknown, headers?: Record<string, string>): Promise<T> =>
  ask<T>("POST", path, body, headers);

/** A key under which a message may be sent again without being another one. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
