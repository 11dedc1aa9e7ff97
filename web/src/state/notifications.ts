/** Notifications of the desktop: when a session asks, or has ended a turn. Only for who wants them. */

import { computed, signal } from "@preact/signals";
import type { Event, Session } from "../api";
import { navigate, openId } from "../routing";
import { visible } from "../text";

const KEY = "antiphon.notifications";
const LOCK = "antiphon.notifications";

export const supported = "Notification" in window;
export const wanted = signal(supported && localStorage.getItem(KEY) === "on" && Notification.permission === "granted");

/** Of several tabs one notifies. It also listens on while nobody looks at it. */
const mine = signal(false);

export const notifying = computed(() => wanted.value && mine.value);

function claim(): void {
  if (!("locks" in navigator)) {
    mine.value = true;
    return;
  }
  void navigator.locks.request(LOCK, () => {
    mine.value = true;
    return new Promise<void>(() => undefined); // until this tab is closed
  });
}

if (supported) claim();

/** Turn notifications on or off. What the browser answers when it is asked for permission counts. */
export async function choose(on: boolean): Promise<void> {
  const granted = on && (await Notification.requestPermission()) === "granted";
  wanted.value = granted;
  localStorage.setItem(KEY, granted ? "on" : "off");
}

const ENDS: Record<string, string> = {
  completed: "has answered",
  failed: "has failed",
  cancelled: "was cancelled",
  interrupted: "was interrupted",
};

/** Tell of an event, if it is one to tell of and nobody sees it happen. */
export function notify(type: string, event: Event, session: Session | undefined): void {
  if (!notifying.value) return;
  if (document.visibilityState === "visible" && document.hasFocus() && openId.value === event.session_id) return;
  const name = visible(session?.title || session?.key || "A session");
  if (type === "permission.requested") show(event.session_id, `${name} asks you`, visible(event.data.question ?? ""));
  if (type === "turn.ended") show(event.session_id, `${name} ${ENDS[event.data.state] ?? "has ended"}`, "");
}

function show(id: string, title: string, body: string): void {
  const shown = new Notification(title, { body: body.slice(0, 200), tag: id, icon: "/assets/favicon.svg" });
  shown.onclick = () => {
    window.focus();
    navigate(id);
    shown.close();
  };
}
