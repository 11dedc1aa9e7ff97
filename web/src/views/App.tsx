/** The page: the board beside the session, or one of them where there is room for one. */

import { useEffect, useState } from "preact/hooks";
import { announcement } from "../announce";
import { linkTo, openId } from "../routing";
import { askingCount, listed, permissions, sessions, nameOf, shortId } from "../state/board";
import { connection } from "../stream";
import { visible } from "../text";
import { Approval } from "./Approval";
import { Board } from "./Board";
import { Session } from "./Session";
import { SignIn } from "./SignIn";

const MINUTE_MS = 60_000;

export function App({ onSignedIn }: { onSignedIn: () => void }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), MINUTE_MS / 2);
    return () => clearInterval(timer);
  }, []);
  const id = openId.value;
  const asking = askingCount.value;
  useEffect(() => {
    if (id === null) document.title = asking > 0 ? `(${asking}) antiphon` : "antiphon";
  }, [id, asking]);
  if (connection.value === "signed-out") return <SignIn onDone={onSignedIn} />;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the session
      </button>
      <Offline />
      <div class={id === null ? "layout on-board" : "layout on-session"}>
        <nav class="board" aria-label="Sessions">
          <Board now={now} />
        </nav>
        <main id="main" tabIndex={-1} class="pane">
          {id === null ? <Overview /> : <Session id={id} />}
        </main>
      </div>
      <p class="hidden" role="status">
        {announcement.value}
      </p>
    </>
  );
}

function Offline() {
  const off = connection.value === "offline";
  return (
    <div role="status" class={off ? "offline" : "hidden"}>
      {off && "Offline: the host does not answer. This page goes on by itself once it does; what you see may be old."}
    </div>
  );
}

/** What is shown beside the board while no session is open: who needs somebody. */
function Overview() {
  const asked = permissions.value;
  if (asked.length === 0) {
    return (
      <div class="empty">
        <h1 tabIndex={-1}>{listed.value && sessions.value.size === 0 ? "No sessions yet" : "Nobody needs you"}</h1>
        <p>{sessions.value.size > 0 ? "Choose a session to read along." : "Start one, and talk to it here or from anywhere."}</p>
      </div>
    );
  }
  return (
    <div class="overview">
      <h1 tabIndex={-1}>{asked.length === 1 ? "One question waits for you" : `${asked.length} questions wait for you`}</h1>
      {asked.map((permission) => {
        const session = sessions.value.get(permission.session_id);
        const deadline = permission.deadline_at ? Date.parse(permission.deadline_at) : null;
        return (
          <Approval key={permission.id} asked={{ ...permission, deadline }}>
            <p class="approval-from">
              <a href={linkTo(permission.session_id)}>
                <bdi>{visible(session ? nameOf(session) : (permission.session_key ?? shortId(permission.session_id)))}</bdi>
              </a>
            </p>
          </Approval>
        );
      })}
    </div>
  );
}
