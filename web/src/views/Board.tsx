/** The board: all sessions, by who needs a person most. */

import { useSignal } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useId } from "preact/hooks";
import { ask } from "../api";
import type { Session } from "../api";
import { linkTo, openId } from "../routing";
import * as board from "../state/board";
import * as notifications from "../state/notifications";
import { seen } from "../state/seen";
import { ago, full, visible } from "../text";
import { NewSession } from "./NewSession";
import { Menu, StatusIcon, STATUS_WORDS } from "./parts";

/** Statuses that the heading of their group tells already. */
const TOLD_BY_GROUP = new Set(["asking", "stalled", "errored", "running", "idle"]);
const FIRST_ROWS = 100;
const SEARCH_MS = 250;

export function Board({ now }: { now: number }) {
  const starting = useSignal(false);
  return (
    <>
      <header class="board-head">
        <a class="brand" href={linkTo(null)}>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M6 21V11m6.7 14V7m6.6 18V7M26 21V11" />
          </svg>
          antiphon
        </a>
        <NotificationSwitch />
        <button type="button" class="new" onClick={() => (starting.value = true)}>
          <svg viewBox="0 0 16 16" aria-hidden="true" class="icon outline">
            <path d="M8 3v10M3 8h10" />
          </svg>
          New<span class="hidden"> session</span>
        </button>
        <Menu label="More">
          <a href="/docs" target="_blank" rel="noopener">
            HTTP reference
          </a>
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        </Menu>
      </header>
      <Filters />
      <Groups now={now} />
      {starting.value && <NewSession onClose={() => (starting.value = false)} />}
    </>
  );
}

/** Sign this browser out. Whatever comes of it, the page begins anew, and shows what it may. */
async function signOut(): Promise<void> {
  await ask("POST", "/v1/sign-out").catch(() => undefined);
  location.reload();
}

function NotificationSwitch() {
  if (!notifications.supported) return null;
  const on = notifications.wanted.value;
  const label = "Notify me when a session asks or ends";
  return (
    <button
      type="button"
      class="plain icon-button"
      aria-pressed={on}
      aria-label={label}
      title={on ? `${label}: on` : `${label}: off`}
      onClick={() => void notifications.choose(!on)}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true" class="icon outline">
        <path d="M8 2a4 4 0 0 0-4 4v3l-1.4 2.4h10.8L12 9V6a4 4 0 0 0-4-4zM6.6 13.6a1.5 1.5 0 0 0 2.8 0" />
        {!on && <path d="M2 2l12 12" />}
      </svg>
    </button>
  );
}

function Filters() {
  const search = useId();
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      document.getElementById(search)?.focus();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, []);
  const query = `${board.search.value}\n${board.agentFilter.value}\n${board.labelFilter.value}`;
  useEffect(() => {
    const timer = setTimeout(() => void board.searchHost(), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [query]);
  return (
    <search class="filters">
      <input
        id={search}
        type="search"
        aria-label="Search sessions"
        aria-keyshortcuts="/"
        placeholder="Search  /"
        value={board.search.value}
        onInput={(event) => (board.search.value = event.currentTarget.value)}
      />
      <div class="filter-row">
        <Choice label="Agent" all="All agents" values={board.knownAgents.value} chosen={board.agentFilter} />
        <Choice label="Label" all="All labels" values={board.knownLabels.value} chosen={board.labelFilter} />
      </div>
    </search>
  );
}

function Choice(props: { label: string; all: string; values: string[]; chosen: { value: string } }) {
  const { label, all, values, chosen } = props;
  if (values.length === 0) return null;
  return (
    <select
      aria-label={label}
      class={chosen.value ? "chosen" : ""}
      value={chosen.value}
      onChange={(event) => (chosen.value = event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {values.map((value) => (
        <option key={value} value={value}>
          {visible(value)}
        </option>
      ))}
    </select>
  );
}

function Groups({ now }: { now: number }) {
  const groups = board.groups.value;
  if (!board.listed.value) return <p class="hint">Looking for sessions…</p>;
  return (
    <div class="groups">
      {groups.length === 0 && <Nothing />}
      {groups.map((group) => (
        <Group key={group.name} name={group.name} sessions={group.sessions} now={now} />
      ))}
      {board.olderCursor.value && (
        <button type="button" class="more" onClick={() => void board.listOlder()}>
          Show older sessions
        </button>
      )}
    </div>
  );
}

function Nothing() {
  if (board.filtering.value) {
    const clear = (): void => {
      board.search.value = board.agentFilter.value = board.labelFilter.value = "";
    };
    return (
      <div class="hint">
        <p>No session is like that.</p>
        <button type="button" onClick={clear}>
          Show all sessions
        </button>
      </div>
    );
  }
  return <p class="hint">No sessions yet. Start one here, or with <code>antiphon session message</code>.</p>;
}

function Group({ name, sessions, now }: { name: string; sessions: readonly Session[]; now: number }) {
  const heading = useId();
  const shown = useSignal(FIRST_ROWS);
  const rest = sessions.length - shown.value;
  return (
    <section aria-labelledby={heading} class={`group group-${name.toLowerCase().replace(" ", "-")}`}>
      <h2 id={heading}>
        {name} <span class="count">{sessions.length}</span>
      </h2>
      <ul>
        {sessions.slice(0, shown.value).map((session) => (
          <Row
            key={session.id}
            session={session}
            open={session.id === openId.value}
            unread={session.id !== openId.value && seen.unread(session)}
            age={ago(session.active_at, now)}
          />
        ))}
      </ul>
      {rest > 0 && (
        <button type="button" class="more" onClick={() => (shown.value += FIRST_ROWS * 3)}>
          Show {Math.min(rest, FIRST_ROWS * 3)} more
        </button>
      )}
    </section>
  );
}

interface RowProps {
  session: Session;
  open: boolean;
  unread: boolean;
  age: string;
}

const Row = memo(function Row({ session, open, unread, age }: RowProps) {
  const folder = session.cwd?.split("/").filter(Boolean).at(-1);
  return (
    <li>
      <a
        class={unread ? "row unread" : "row"}
        href={linkTo(session.id)}
        aria-current={open ? "page" : undefined}
        data-session={session.id}
      >
        <StatusIcon status={session.status} />
        <span class="row-name">
          <bdi>{visible(board.nameOf(session))}</bdi>
        </span>
        <time dateTime={session.active_at} title={full(session.active_at)}>
          {age}
        </time>
        <span class="row-more">
          <span class={TOLD_BY_GROUP.has(session.status) ? "hidden" : ""}>{STATUS_WORDS[session.status]}</span>
          <span>{visible(session.agent)}</span>
          {folder && <span class="folder">{visible(folder)}</span>}
          {session.queued > 0 && <span>{session.queued} waiting</span>}
          {session.paused_at && <span>paused</span>}
          {board.labelsOf(session).map((label) => (
            <bdi key={label} class="label">
              {visible(label)}
            </bdi>
          ))}
        </span>
        {unread && <span class="dot" role="img" aria-label="unread" />}
      </a>
    </li>
  );
});
