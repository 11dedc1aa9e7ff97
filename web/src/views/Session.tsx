/** One session: what was said, what waits, what is asked, and where to write. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { ask, post, sessionPath } from "../api";
import type { Session as SessionState } from "../api";
import { linkTo, navigate, openId } from "../routing";
import { labelsOf, nameOf } from "../state/board";
import type { Item } from "../state/conversation";
import { OpenSession } from "../state/open";
import { seen } from "../state/seen";
import { clock, full, visible } from "../text";
import { Composer } from "./Composer";
import { Dialog, ErrorNote, Menu, StatusChip, useWork } from "./parts";
import { Queue } from "./Queue";
import { Bubble, stampOf, Turn } from "./Turn";

const NEAR_PX = 80;

export function Session({ id }: { id: string }) {
  const [open, setOpen] = useState<OpenSession | null>(null);
  useEffect(() => {
    const opened = new OpenSession(id);
    setOpen(opened);
    return () => opened.close();
  }, [id]);
  if (open?.id !== id) return null;
  return <Opened key={id} open={open} />;
}

function Opened({ open }: { open: OpenSession }) {
  const session = open.session.value;
  const conversation = open.conversation.value;
  // A conversation's lists change in place. Whatever shows them takes the version too, so as to be shown anew.
  const version = open.version.value;
  const running = conversation.running;
  const heading = useRef<HTMLHeadingElement>(null);
  const scroll = useScroll(open);

  useEffect(() => heading.current?.focus({ preventScroll: true }), [session === null]);
  useAnnouncements(open);
  useEffect(() => {
    if (!session) return;
    if (session.id !== open.id) history.replaceState(null, "", linkTo(session.id)); // it was opened by its key
    if (session.id !== open.id) openId.value = session.id;
    document.title = `${visible(nameOf(session))} · antiphon`;
    const look = (): void => {
      if (document.visibilityState === "visible") seen.look(session);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [session]);

  if (open.deleted.value) return <Gone text="This session was deleted." />;
  if (!session) {
    const problem = open.problem.value;
    if (problem && !problem.unreached) return <Gone text={visible(problem.message)} />;
    return <p class="hint">{problem ? "The host is not reached. Trying again…" : "Opening…"}</p>;
  }
  return (
    <>
      <Head session={session} heading={heading} />
      <div class="scroll" ref={scroll.element} onScroll={scroll.onScroll} tabIndex={0} role="region" aria-label="Conversation">
        <div class="transcript">
          {open.older.value !== "none" && (
            <div class="older" ref={scroll.older}>
              <button type="button" class="more" disabled={open.older.value === "loading"} onClick={() => void open.readOlder()}>
                {open.older.value === "loading" ? "Reading…" : "Show what was said before"}
              </button>
            </div>
          )}
          {conversation.items.length === 0 && conversation.queue.length === 0 && (
            <p class="hint">Nothing was said here yet.</p>
          )}
          {conversation.items.map((item) => (
            <ItemView key={`${item.kind}${item.kind === "turn" ? item.id : item.sequence}`} item={item} open={open} version={version} />
          ))}
        </div>
      </div>
      {!scroll.atEnd && (
        <button type="button" class="to-end" onClick={scroll.toEnd}>
          <svg viewBox="0 0 16 16" aria-hidden="true" class="icon outline">
            <path d="M8 3v10M4 9l4 4 4-4" />
          </svg>
          Newest
        </button>
      )}
      <div class="bottom">
        <Queue session={session} conversation={conversation} receipts={open.receipts.value} version={version} />
        {session.status === "stopped" ? (
          <Stopped session={session} />
        ) : (
          <Composer key={session.id} session={session} running={running} version={version} onSent={scroll.toEnd} />
        )}
      </div>
    </>
  );
}

function ItemView({ item, open }: { item: Item; open: OpenSession; version: number }) {
  const conversation = open.conversation.value;
  switch (item.kind) {
    case "turn":
      return <Turn turn={item} conversation={conversation} stamp={stampOf(item, conversation)} />;
    case "apart":
      return <Bubble message={conversation.messages.get(item.message)} apart />;
    case "mark":
      return (
        <p class="mark">
          <span>{MARKS[item.what]}</span>{" "}
          <time dateTime={item.at} title={full(item.at)}>
            {clock(item.at)}
          </time>
        </p>
      );
  }
}

const MARKS = { cleared: "A new conversation begins", stopped: "Stopped", resumed: "Resumed" } as const;

function Gone({ text }: { text: string }) {
  return (
    <div class="empty">
      <h1 tabIndex={-1}>{text}</h1>
      <p>
        <a href={linkTo(null)}>All sessions</a>
      </p>
    </div>
  );
}

/** Keeps the newest in sight for who reads the newest, and the place for who reads something else. */
function useScroll(open: OpenSession) {
  const element = useRef<HTMLDivElement>(null);
  const older = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const pinned = useRef(true);
  const before = useRef({ height: 0, first: "" });
  const stable = open.session.value !== null;

  const toEnd = (): void => {
    const view = element.current;
    pinned.current = true;
    setAtEnd(true);
    if (view) view.scrollTop = view.scrollHeight;
  };
  const onScroll = (): void => {
    const view = element.current;
    if (!view) return;
    const end = view.scrollHeight - view.scrollTop - view.clientHeight < NEAR_PX;
    pinned.current = end;
    setAtEnd(end);
  };
  useLayoutEffect(() => {
    const view = element.current;
    if (!view) return;
    const first = open.conversation.value.items[0];
    const name = first ? String(first.sequence) : "";
    if (pinned.current) {
      view.scrollTop = view.scrollHeight;
      open.trim();
    } else if (name !== before.current.first && view.scrollTop < 4) {
      view.scrollTop += view.scrollHeight - before.current.height; // browsers keep the place, but not at the very top
    }
    before.current = { height: view.scrollHeight, first: name };
  });
  useEffect(() => {
    const view = element.current;
    if (!view) return;
    // What is laid out late, or the keyboard of a phone, must not take the newest out of sight.
    const sizes = new ResizeObserver(() => {
      if (pinned.current) view.scrollTop = view.scrollHeight;
    });
    sizes.observe(view);
    for (const child of view.children) sizes.observe(child);
    return () => sizes.disconnect();
  }, [stable]);
  const more = open.older.value;
  useEffect(() => {
    if (more !== "some" || !older.current || !element.current) return;
    const near = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && void open.readOlder(), {
      root: element.current,
      rootMargin: "600px 0px 0px 0px",
    });
    near.observe(older.current);
    return () => near.disconnect();
  }, [more, open]);
  return { element, older, atEnd, toEnd, onScroll };
}

/** A screen reader hears that something was answered or asked, not every word as it comes. */
function useAnnouncements(open: OpenSession): void {
  const conversation = open.conversation.value;
  const running = conversation.running;
  const before = useRef<string | null>(null);
  const asked = conversation.pending[0];
  useEffect(() => {
    if (asked) announce(`The agent asks: ${visible(asked.question)}`);
  }, [asked?.id]);
  useEffect(() => {
    const last = before.current;
    before.current = running?.id ?? null;
    if (last === null || last === running?.id) return;
    const turn = conversation.items.find((item) => item.kind === "turn" && item.id === last);
    if (turn?.kind === "turn") announce(turn.state === "completed" ? "Answered" : `The turn ended: ${turn.state}`);
  }, [running?.id]);
}

function Head({ session, heading }: { session: SessionState; heading: preact.RefObject<HTMLHeadingElement | null> }) {
  const [asking, setAsking] = useState<"rename" | "clear" | "delete" | null>(null);
  const work = useWork();
  const path = sessionPath(session.id);
  const stop = (): void => void work.run(() => post(`${path}/stop`));
  const folder = session.cwd ?? "";
  return (
    <header class="session-head">
      <a class="back" href={linkTo(null)} aria-label="All sessions">
        <svg viewBox="0 0 16 16" aria-hidden="true" class="icon outline">
          <path d="M10 3 5 8l5 5" />
        </svg>
      </a>
      <div class="session-title">
        <h1 ref={heading} tabIndex={-1}>
          <bdi>{visible(nameOf(session))}</bdi>
        </h1>
        <p class="session-meta">
          <span>{visible(session.agent)}</span>
          {session.model && <span>{visible(session.model)}</span>}
          {session.paused_at && <span class="paused">queue paused</span>}
          {session.title && session.key && <bdi>{visible(session.key)}</bdi>}
          {folder && (
            <span class="folder" title={visible(folder)}>
              {visible(folder)}
            </span>
          )}
          {labelsOf(session).map((label) => (
            <bdi key={label} class="label">
              {visible(label)}
            </bdi>
          ))}
        </p>
      </div>
      <StatusChip status={session.status} />
      <Menu label="What can be done with this session">
        <button type="button" onClick={() => setAsking("rename")}>
          Rename…
        </button>
        {session.status === "stopped" ? null : (
          <button type="button" onClick={stop} title="Cancels what runs and refuses what comes">
            Stop
          </button>
        )}
        <button type="button" onClick={() => setAsking("clear")}>
          Begin anew…
        </button>
        <a href={`${path}/export`} download={`${session.key ?? session.id}.json`}>
          Export
        </a>
        <button type="button" class="danger" onClick={() => setAsking("delete")}>
          Delete…
        </button>
      </Menu>
      {work.problem && <ErrorNote problem={work.problem} />}
      {asking === "rename" && <Rename session={session} onClose={() => setAsking(null)} />}
      {asking === "clear" && (
        <Confirm
          title="Begin anew?"
          text="The agent forgets this conversation, and what runs is cancelled. What was said can still be read here."
          does="Begin anew"
          work={() => post(`${path}/clear`)}
          onClose={() => setAsking(null)}
        />
      )}
      {asking === "delete" && (
        <Confirm
          title="Delete this session?"
          text="What runs and what waits is cancelled, and everything that was said here is forgotten. This can't be undone."
          does="Delete"
          work={() => ask("DELETE", path).then(() => navigate(null))}
          onClose={() => setAsking(null)}
        />
      )}
    </header>
  );
}

function Confirm(props: { title: string; text: string; does: string; work: () => Promise<unknown>; onClose: () => void }) {
  const { title, text, does, onClose } = props;
  const work = useWork();
  const go = async (): Promise<void> => {
    if (await work.run(props.work)) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{text}</p>
      {work.problem && <ErrorNote problem={work.problem} />}
      <div class="buttons">
        <button type="button" onClick={onClose}>
          Never mind
        </button>
        <button type="button" class={does === "Delete" ? "danger filled" : "primary"} disabled={work.busy} onClick={() => void go()}>
          {does}
        </button>
      </div>
    </Dialog>
  );
}

function Rename({ session, onClose }: { session: SessionState; onClose: () => void }) {
  const [title, setTitle] = useState(session.title ?? "");
  const work = useWork();
  const save = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    if (await work.run(() => ask("PATCH", sessionPath(session.id), { title: title.trim() || null }))) onClose();
  };
  return (
    <Dialog title="Rename" onClose={onClose}>
      <form class="form" onSubmit={(event) => void save(event)}>
        <label for="new-title">Title</label>
        <input id="new-title" value={title} maxLength={500} autofocus onInput={(event) => setTitle(event.currentTarget.value)} />
        {work.problem && <ErrorNote problem={work.problem} />}
        <div class="buttons">
          <button type="button" onClick={onClose}>
            Never mind
          </button>
          <button type="submit" class="primary" disabled={work.busy}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Stopped({ session }: { session: SessionState }) {
  const work = useWork();
  const resume = (): void => void work.run(() => post(`${sessionPath(session.id)}/resume`));
  return (
    <div class="stopped">
      <p>This session is stopped. It takes no messages until it is resumed{session.queued > 0 && "; what waits runs then"}.</p>
      {work.problem && <ErrorNote problem={work.problem} />}
      <button type="button" class="primary" disabled={work.busy} onClick={resume}>
        Resume
      </button>
    </div>
  );
}
