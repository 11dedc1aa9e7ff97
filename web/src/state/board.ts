/** All sessions: listed once, then kept up to date by the feed of all sessions. */

import { computed, signal } from "@preact/signals";
import { get, Problem, sessionPath } from "../api";
import type { Agent, Event, Page, Permission, Session, Status } from "../api";
import { Follower } from "../stream";
import { notify, notifying } from "./notifications";
import { seen } from "./seen";

const PAGE = 200;
/** So many of the newest sessions are listed at first; those that need somebody are listed whatever their age. */
const FIRST_MAX = 800;
const NEEDY: Status[] = ["asking", "stalled", "errored", "running", "starting"];
/** That a turn has gone silent is no event, so it is looked for. */
const LOOK_AGAIN_MS = 20_000;
const REFRESH_MS = 250;

export const sessions = signal<ReadonlyMap<string, Session>>(new Map());
export const permissions = signal<readonly Permission[]>([]);
export const agents = signal<readonly Agent[]>([]);
export const listed = signal(false);
export const olderCursor = signal<string | null>(null);

export const search = signal("");
export const agentFilter = signal("");
export const labelFilter = signal("");

export const GROUPS = [
  { name: "Needs you", statuses: ["asking"] },
  { name: "Stalled", statuses: ["stalled"] },
  { name: "Failed", statuses: ["errored"] },
  { name: "Running", statuses: ["running", "starting"] },
  { name: "Quiet", statuses: ["idle", "dormant", "stopped"] },
] as const satisfies readonly { name: string; statuses: readonly Status[] }[];

export const nameOf = (session: Session): string => session.title || session.key || shortId(session.id);
export const shortId = (id: string): string => `${id.slice(0, 4)}…${id.slice(-6)}`;

const matches = computed(() => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const [agent, label] = [agentFilter.value, labelFilter.value];
  return (session: Session): boolean => {
    if (agent && session.agent !== agent) return false;
    if (label && !labelsOf(session).includes(label)) return false;
    const text = [session.title, session.key, session.cwd, ...labelsOf(session)].join("\n").toLowerCase();
    return words.every((word) => text.includes(word) || (word.startsWith("ses_") && session.id.startsWith(word)));
  };
});

export const labelsOf = (session: Session): string[] =>
  Object.entries(session.labels).map(([name, value]) => (value ? `${name}=${value}` : name));

export const groups = computed(() => {
  const kept = [...sessions.value.values()].filter(matches.value);
  kept.sort((one, other) => other.active_at.localeCompare(one.active_at) || other.id.localeCompare(one.id));
  return GROUPS.map(({ name, statuses }) => ({
    name,
    sessions: kept.filter((session) => (statuses as readonly string[]).includes(session.status)),
  })).filter((group) => group.sessions.length > 0);
});

export const filtering = computed(() => Boolean(search.value || agentFilter.value || labelFilter.value));
export const askingCount = computed(
  () => [...sessions.value.values()].filter((session) => session.status === "asking").length,
);
export const knownAgents = computed(() => {
  const used = [...sessions.value.values()].map((session) => session.agent);
  return [...new Set([...used, ...agents.value.map((agent) => agent.name)])].sort();
});
export const knownLabels = computed(() => [...new Set([...sessions.value.values()].flatMap(labelsOf))].sort());

function keep(found: readonly Session[], gone: Iterable<string> = []): void {
  const next = new Map(sessions.value);
  for (const session of found) {
    const known = next.get(session.id);
    if (!known || known.sequence <= session.sequence) next.set(session.id, session);
  }
  for (const id of gone) next.delete(id);
  sessions.value = next;
}

/** List everything anew; what is no longer there goes. */
async function list(): Promise<void> {
  const needy = await all({ status: NEEDY }, 5000);
  const newest = await all({}, FIRST_MAX);
  olderCursor.value = newest.cursor;
  const found = [...needy.items, ...newest.items];
  const alive = new Set(found.map((session) => session.id));
  keep(found, newest.cursor ? [] : [...sessions.value.keys()].filter((id) => !alive.has(id)));
  seen.begin();
  listed.value = true;
  await listPermissions();
}

async function all(
  query: Record<string, string | string[]>,
  most: number,
  from: string | null = null,
): Promise<{ items: Session[]; cursor: string | null }> {
  const items: Session[] = [];
  let cursor = from;
  do {
    const page: Page<Session> = await get("/v1/sessions", { ...query, limit: PAGE, cursor });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && items.length < most);
  return { items, cursor };
}

export async function listOlder(): Promise<void> {
  const { items, cursor } = await all({}, FIRST_MAX, olderCursor.value);
  olderCursor.value = cursor;
  keep(items);
}

/** Look among the sessions that are not listed here too. */
export async function searchHost(): Promise<void> {
  if (!filtering.value || !olderCursor.value) return;
  const query: Record<string, string> = {};
  if (search.value.trim()) query.q = search.value.trim();
  if (agentFilter.value) query.agent = agentFilter.value;
  if (labelFilter.value.includes("=")) query.label = labelFilter.value;
  keep((await all(query, PAGE)).items);
}

async function listPermissions(): Promise<void> {
  permissions.value = (await get<Page<Permission>>("/v1/permissions", { state: "pending", limit: PAGE })).items;
}

// Keeping up

const stale = new Set<string>();
let refreshing: number | undefined;
let permissionsStale = false;

function refreshSoon(): void {
  refreshing ??= window.setTimeout(() => void quietly(refresh()), REFRESH_MS);
}

async function refresh(): Promise<void> {
  refreshing = undefined;
  const ids = [...stale];
  stale.clear();
  if (permissionsStale) {
    permissionsStale = false;
    await listPermissions();
  }
  if (ids.length > 10) {
    await list();
    return;
  }
  const found = await Promise.all(ids.map((id) => get<Session>(sessionPath(id)).catch(() => null)));
  keep(found.filter((session): session is Session => session !== null));
}

function hear(type: string, event: Event): void {
  if (type === "gap") return;
  if (type === "snapshot") {
    void quietly(list());
    return;
  }
  if (type === "session.deleted") {
    stale.delete(event.session_id);
    keep([], [event.session_id]);
    return;
  }
  const known = sessions.value.get(event.session_id);
  if (type === "session.status" && known) keep([{ ...known, status: event.data.status, active_at: event.at }]);
  if (type.startsWith("permission.")) permissionsStale = true;
  notify(type, event, known);
  stale.add(event.session_id);
  refreshSoon();
}

/** A host that is not there is told of elsewhere; whatever else goes wrong is a mistake of this page. */
async function quietly(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

const TYPES = [
  "session.created session.updated session.status session.stopped session.resumed session.cleared session.deleted",
  "queue.paused queue.continued message.accepted message.ended turn.started turn.ended turn.stalled",
  "permission.requested permission.answered permission.expired",
]
  .join(" ")
  .split(" ");

/** List all sessions and follow them, for as long as the page is open. */
export async function followBoard(): Promise<void> {
  const { next_cursor } = await get<Page<Event>>("/v1/events", { limit: 1 });
  await list();
  agents.value = (await get<Page<Agent>>("/v1/agents")).items;
  let opened = false;
  new Follower(
    {
      path: "/v1/events",
      query: { types: TYPES.join(","), inline_max: 4096 },
      after: next_cursor,
      types: [...TYPES, "gap", "snapshot"],
      always: notifying,
    },
    {
      event: (type, _cursor, data) => hear(type, data as Event),
      opened: () => {
        if (opened) void quietly(list());
        opened = true;
      },
    },
  );
  setInterval(() => void quietly(look()), LOOK_AGAIN_MS);
}

async function look(): Promise<void> {
  const watched = [...sessions.value.values()].some(({ status }) => status === "running" || status === "stalled");
  if (watched && document.visibilityState === "visible") keep((await all({ status: ["running", "stalled"] }, 1000)).items);
}
